"""The wall clock of tests, and real brokers whose wall clock a test sets.

Run as a program, this is a broker: the first argument is a file with the number of seconds by which its wall clock is ahead,
the second one ``checked`` or ``unchecked``: whether it compares its clock with others.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from ottla.broker.__main__ import main
from ottla.broker.checked_clock import CheckedClock
from ottla.broker.storage.data_folder.clean_loop import CleanLoop
from ottla.local.broker import BrokerProcess

LOOK_S = 0.05


def wall_ms() -> int:
    """The time of day in milliseconds."""
    return int(time.time() * 1000)


def set_clock(folder: Path, broker: int, ahead_s: float) -> None:
    """Set the wall clock of a broker of ``brokers_with_clocks``."""
    written = folder / f"clock-{broker}.new"
    written.write_text(str(ahead_s))
    written.replace(folder / f"clock-{broker}")


@contextmanager
def brokers_with_clocks(folder: Path, how: str = "checked") -> Iterator[None]:
    """Every local cluster that is made meanwhile has brokers whose wall clocks ``set_clock`` sets."""
    prepare = BrokerProcess.prepare

    def prepare_with_clock(self: BrokerProcess, *arguments: object) -> None:
        prepare(self, *arguments)  # type: ignore[arg-type]
        command = self.process.command
        assert command[1:3] == ["-m", "ottla.broker"]
        command[1:3] = [str(Path(__file__)), str(folder / f"clock-{self.id}"), how]

    with (
        mock.patch.object(BrokerProcess, "prepare", prepare_with_clock),
        mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
    ):
        yield


def _shift_time(file: Path) -> None:
    real, looked_s, ahead_s = time.time, 0.0, 0.0

    def shifted() -> float:
        nonlocal looked_s, ahead_s
        now_s = time.monotonic()
        if now_s - looked_s > LOOK_S:
            looked_s = now_s
            try:
                ahead_s = float(file.read_text())
            except OSError:
                ahead_s = 0.0
        return real() + ahead_s

    time.time = shifted


def _do_not_check() -> None:
    """The mechanism switched off: wall clocks are believed, and followers delete by their own limits."""
    CheckedClock.trusted_ms = CheckedClock.stamp_ms = lambda self: wall_ms()  # type: ignore[method-assign]
    begin = CleanLoop.__init__

    def begin_unchecked(self: CleanLoop, *arguments: object, **options: object) -> None:
        begin(self, *arguments, **{**options, "leads": lambda where: True})  # type: ignore[arg-type]

    CleanLoop.__init__ = begin_unchecked  # type: ignore[method-assign]


if __name__ == "__main__":
    _shift_time(Path(sys.argv[1]))
    if sys.argv[2] == "unchecked":
        _do_not_check()
    sys.exit(main(sys.argv[3:]))
