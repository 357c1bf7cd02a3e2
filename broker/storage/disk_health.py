"""Whether the disk under a log still does what it is told. Once it did not, the log is failed until the broker restarts."""

import logging
from pathlib import Path
from types import TracebackType

from ottla.wire.errors import StorageError

logger = logging.getLogger(__name__)

HINT = "restart the broker once the disk is mended"


class DiskHealth:
    """Of one log. ``failure`` says what went wrong first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.failure: str | None = None

    def check(self) -> None:
        """StorageError if the log is failed."""
        if self.failure is not None:
            raise StorageError(f"{self._folder}: {self.failure}", hint=HINT)

    def fail(self, doing: str, error: OSError) -> StorageError:
        """The log is failed from now on; gives what to raise."""
        if self.failure is None:
            self.failure = f"{doing} failed: {error}"
            logger.error("log failed: folder=%s doing=%s error=%s", self._folder, doing, error)
        return StorageError(f"{self._folder}: {doing} failed: {error}", hint=HINT)

    def during(self, doing: str) -> "DiskWork":
        """Around work on the disk: not begun if the log is failed, and an OSError in it fails the log."""
        return DiskWork(self, doing)


class DiskWork:
    """A class and no generator: those do not compile well (docs/decisions/0011)."""

    __slots__ = ("_doing", "_health")

    def __init__(self, health: DiskHealth, doing: str) -> None:
        self._health = health
        self._doing = doing

    def __enter__(self) -> None:
        self._health.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise self._health.fail(self._doing, error) from error
