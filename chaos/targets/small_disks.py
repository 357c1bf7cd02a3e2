"""File systems of limited size for brokers of a local cluster: a tmpfs each, which shrinks to what it holds to be full."""

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.chaos.faults import NotOffered

SIZE_KB = 1 << 20
"""The size of a disk that is not full. A tmpfs takes only the memory that its files need."""

TRIES = 20
"""A broker may write while its disk shrinks, so that the new size is too small."""

COMMAND_TIMEOUT_S = 30.0


def why_not_offered() -> str | None:
    """Why this user cannot mount a file system; None if that is possible as far as one can see."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "a file system of limited size takes root and mount"
    return None


class SmallDisk:
    """A tmpfs at a folder, while the ``with`` block lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._full = False

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        error = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_KB}k", "tmpfs", str(self._folder))
        if error:
            raise NotOffered(f"a file system of limited size cannot be mounted: {error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run("umount", "--lazy", str(self._folder))

    def fill(self) -> None:
        """Leave no free space."""
        error = ""
        for _ in range(TRIES):
            stat = os.statvfs(self._folder)
            used_kb = (stat.f_blocks - stat.f_bfree) * stat.f_frsize // 1024
            error = self._resize(used_kb)
            if not error:
                self._full = True
                return
        raise NotOffered(f"a disk could not be filled: {error}")

    def free(self) -> None:
        """Give a full disk its space back."""
        if self._full and not (error := self._resize(SIZE_KB)):
            self._full = False
        elif self._full:
            raise NotOffered(f"a disk could not be freed: {error}")

    def erase(self) -> None:
        """Delete all files."""
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _resize(self, kilobytes: int) -> str:
        return _run("mount", "-o", f"remount,size={max(4, kilobytes)}k", str(self._folder))


def _run(*command: str) -> str:
    """Run a command; returns what it says if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
