"""Live clusters for tests."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.local import LocalCluster
from ottla.local.broker import child_environment


@pytest.fixture(scope="session")
def cluster1() -> Iterator[LocalCluster]:
    """One broker for the whole run, shared: take topics of your own, and kill nothing."""
    with LocalCluster(brokers=1) as cluster:
        yield cluster


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true after {timeout_s} s"
        time.sleep(0.02)


def ottla(*arguments: str, bootstrap: str = "127.0.0.1:1", stdin: bytes = b"") -> "subprocess.CompletedProcess[str]":
    """Run the command as a user's shell does, its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments],
        input=stdin,
        capture_output=True,
        timeout=90,
        env={**child_environment(), "OTTLA_BOOTSTRAP": bootstrap},
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
