"""Buffers that are made and freed again and again do not cost page faults each time."""

import platform
import subprocess
import sys

import pytest

from tests.support.machine import scaled

PROGRAM = """
import resource
from ottla.net.heap import keep_freed_memory
if {kept}:
    keep_freed_memory()
value = bytes(65000)
def one_window():
    return [bytearray().join([value]) for _ in range(25)]
one_window()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    one_window()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(kept: bool) -> int:
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(kept=kept)],
        capture_output=True,
        text=True,
        check=True,
        timeout=scaled(60),
    )
    return int(out.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other habits")
def test_freed_buffers_are_used_again() -> None:
    assert page_faults(kept=True) < 1000 < page_faults(kept=False)
