"""Processes with few file descriptors: this one for a moment, or the brokers of a local cluster."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from ottla.local.broker import BrokerProcess


@contextmanager
def few_descriptors(left: int = 0) -> Iterator[None]:
    """Only so many more files can be opened meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    taken = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    while not held or held[-1] < max(taken):  # the numbers below are all taken then
        held.append(os.dup(0))
    lowest = held[-1] + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


@contextmanager
def brokers_with_descriptors(soft: int, hard: int) -> Iterator[None]:
    """Brokers of clusters that are made meanwhile have these limits of open files."""
    prepare = BrokerProcess.prepare

    def prepare_limited(self: BrokerProcess, *arguments: object) -> None:
        prepare(self, *arguments)  # type: ignore[arg-type]
        limit = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$0" "$@"'
        self.process.command[:0] = ["/bin/sh", "-c", limit]

    with mock.patch.object(BrokerProcess, "prepare", prepare_limited):
        yield
