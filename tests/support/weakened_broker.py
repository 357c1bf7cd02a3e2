"""Real brokers that lack one safety mechanism, to see that a chaos run finds what comes of it.

Run as a program, this is a broker: the first argument names the mechanism that is switched off. Nothing in the product
knows of it, and no configuration reaches it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ottla.broker.__main__ import main
from ottla.broker.replication.partition import Partition
from ottla.broker.storage.producers import ProducerStates
from ottla.local.broker import BrokerProcess


def _commit_without_followers() -> None:
    """A leader takes for committed, and acknowledges, what it alone has."""
    append = Partition.append

    def append_and_commit(self: Partition, *arguments: Any, **options: Any) -> Any:
        appended = append(self, *arguments, **options)
        self.high_watermark = self.log.log_end_offset
        return appended

    Partition.append = append_and_commit  # type: ignore[method-assign]


def _store_repeats() -> None:
    """A batch that comes again is stored again."""
    ProducerStates.check = lambda self, header, *, may_have_forgotten: None  # type: ignore[method-assign]


MECHANISMS: dict[str, Callable[[], None]] = {
    "waiting for followers": _commit_without_followers,
    "deduplication": _store_repeats,
}


@contextmanager
def brokers_without(mechanism: str) -> Iterator[None]:
    """Every local cluster that is made meanwhile has such brokers."""
    prepare = BrokerProcess.prepare

    def prepare_weakened(self: BrokerProcess, *arguments: object) -> None:
        prepare(self, *arguments)  # type: ignore[arg-type]
        command = self.process.command
        assert command[1:3] == ["-m", "ottla.broker"]
        command[1:3] = [str(Path(__file__)), mechanism]

    # Compiled code would not see what is put in the place of its methods.
    with mock.patch.object(BrokerProcess, "prepare", prepare_weakened), mock.patch.dict(os.environ, OTTLA_PURE="1"):
        yield


if __name__ == "__main__":
    MECHANISMS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
