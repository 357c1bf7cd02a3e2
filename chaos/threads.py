"""Threads of a run. One that dies says so: a run in which somebody did not do their work proves nothing."""

import threading
import traceback
from collections.abc import Callable


class WatchedThread(threading.Thread):
    """Runs ``work``; what ends it too early is kept, and told with its traceback."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # SystemExit too: nobody here may end by himself
            self.error = error

    @property
    def death(self) -> str | None:
        """What it died of; None if it lives, or has ended as it should."""
        if self.error is None:
            return None
        return f"the thread {self.name!r} died:\n{''.join(traceback.format_exception(self.error)).rstrip()}"
