"""Whether the disk under a log can be written. Two kinds of errors are kept apart.

A *failed* log takes nothing more until the broker restarts: a write or an fsync failed, what the disk holds is unknown, and
only recovery can tell. A failed flush is never tried again, because the kernel forgets what it lost.
A *shortage* passes: there is no room on the disk, no descriptor or no memory. An operation that a
shortage stopped has changed nothing, so it is refused with a retriable error and may be tried again at any time.
"""

import errno
import logging
from pathlib import Path
from types import TracebackType
from typing import Final

from ottla.wire.errors import StorageError

logger = logging.getLogger(__name__)

HINT = "restart the broker once the disk is mended"
SHORTAGE_HINT = "make room on the disk or raise the limit; the log goes on by itself"

NO_DESCRIPTORS: Final = frozenset((errno.EMFILE, errno.ENFILE))
SHORTAGES: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)) | NO_DESCRIPTORS
NONE: Final = frozenset[int]()


class DiskShortage(StorageError):
    """There is no room on the disk, no descriptor or no memory at the moment: nothing was changed, and the log goes on."""


def is_shortage(error: OSError) -> bool:
    return error.errno in SHORTAGES


class DiskHealth:
    """Of one log. ``failure`` says what went wrong first, ``shortage`` what is missing at the moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.failure: str | None = None
        self.shortage: str | None = None
        self.refuses_reads = False

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

    def refuse(self, doing: str, error: OSError) -> StorageError:
        """An operation that changed nothing met a shortage, or else failed; gives what to raise."""
        if error.errno not in SHORTAGES:
            return self.fail(doing, error)
        if self.shortage is None:
            logger.error(
                "log cannot be used for the moment: folder=%s doing=%s error=%s hint=%s",
                self._folder, doing, error, SHORTAGE_HINT,
            )  # fmt: skip
        self.shortage = f"{doing}: {error}"
        return DiskShortage(f"{self._folder}: {doing} is not possible now: {error}", hint=SHORTAGE_HINT)

    def refuse_read(self, error: OSError) -> StorageError:
        """A read met a shortage, which says nothing of the next append, or else failed; gives what to raise."""
        if error.errno not in SHORTAGES:
            return self.fail("reading", error)
        if not self.refuses_reads:
            logger.error(
                "log cannot be read for the moment: folder=%s error=%s hint=%s", self._folder, error, SHORTAGE_HINT
            )
        self.refuses_reads = True
        return DiskShortage(f"{self._folder}: reading is not possible now: {error}", hint=SHORTAGE_HINT)

    def read_again(self) -> None:
        """Records were read again."""
        logger.info("log can be read again: folder=%s", self._folder)
        self.refuses_reads = False

    def end_shortage(self) -> None:
        """Records were written again."""
        logger.info("log can be used again: folder=%s after=%s", self._folder, self.shortage)
        self.shortage = None

    def during(self, doing: str, passing: frozenset[int] = NONE) -> "DiskWork":
        """Around work on the disk: not begun if the log is failed, and an OSError in it fails the log.

        ``passing``: error numbers of shortages that stop the work before it has changed anything.
        """
        return DiskWork(self, doing, passing)


class DiskWork:
    """A class and no generator: those do not compile well (docs/decisions/0011)."""

    __slots__ = ("_doing", "_health", "_passing")

    def __init__(self, health: DiskHealth, doing: str, passing: frozenset[int]) -> None:
        self._health = health
        self._doing = doing
        self._passing = passing

    def __enter__(self) -> None:
        self._health.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            if error.errno in self._passing:
                raise self._health.refuse(self._doing, error) from error
            raise self._health.fail(self._doing, error) from error
