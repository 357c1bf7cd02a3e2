"""How the demo talks: headings, lines and numbers, coloured only on a terminal."""

import os
import sys

_BOLD, _GREEN, _RED, _DIM, _RESET = "\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


class Story:
    """Tells what happens, and remembers whether everything it claimed was true."""

    def __init__(self) -> None:
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._chapter = 0
        self.failed = False

    def chapter(self, title: str) -> None:
        self._chapter += 1
        print(f"\n{self._paint(_BOLD, f'{self._chapter}. {title}')}", flush=True)

    def say(self, text: str) -> None:
        print(f"   {text}", flush=True)

    def command(self, text: str) -> None:
        print(f"     {self._paint(_DIM, '$')} {text}", flush=True)

    def claim(self, holds: bool, text: str) -> None:
        """Something that was checked; if it does not hold, the whole story fails."""
        mark = self._paint(_GREEN, "ok") if holds else self._paint(_RED, "NOT TRUE")
        self.failed = self.failed or not holds
        print(f"   {mark}: {text}", flush=True)

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self._coloured else text


def rate(records: int, size: int, seconds: float) -> str:
    """How fast that was, in the units people compare."""
    millions, megabytes = records / 1e6, records * size / 1e6
    return f"{records:,} records in {seconds:.2f} s: {millions / seconds:.2f} million/s, {megabytes / seconds:.0f} MB/s"
