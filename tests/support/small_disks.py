"""File systems that are soon full: a tmpfs of a few hundred kilobytes, mounted where a test wants it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILLER = "filler"


@contextmanager
def small_disk(at: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own below ``at``. The test is skipped where this user may not mount anything."""
    at.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(at)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], timeout=30, check=True)


def fill_up(disk: Path) -> None:
    """Leave not one byte."""
    fd = os.open(disk / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for size in (4096, 1):
            while True:
                try:
                    os.write(fd, bytes(size))
                except OSError:
                    break
    finally:
        os.close(fd)


def make_room(disk: Path) -> None:
    (disk / FILLER).unlink()
