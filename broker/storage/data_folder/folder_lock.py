"""One process per data folder: a lock that the kernel lets go of when the process ends, however it ends."""

import fcntl
import os
from pathlib import Path

from ottla.wire.errors import ConfigError

LOCK_FILE = ".lock"


class FolderLock:
    """Held from construction to ``release``. ConfigError if another process holds it."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise ConfigError(
                f"data folder {folder} is in use by another process (pid {holder})",
                hint="stop that broker, or give this one a folder of its own",
            ) from None
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError:  # a disk that is full
            os.close(self._fd)
            raise

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
