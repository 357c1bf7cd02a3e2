"""The stamps that a data folder bears: random words, the newest last. They tell a folder from an older copy of itself."""

from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file

FILE_NAME = ".data-stamps"

KEPT = 1000
"""With one a minute, a ZooKeeper that was put back by up to half a day still finds its last stamp."""


class DataStamps:
    """Of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._stamps = (folder / FILE_NAME).read_text("utf-8").split()
        except (FileNotFoundError, ValueError):
            self._stamps = []

    def __contains__(self, stamp: str) -> bool:
        return stamp in self._stamps

    def add(self, stamp: str) -> None:
        """Bear one more. Slow: it is on disk afterwards."""
        stamps = [*self._stamps[-(KEPT - 1) :], stamp]
        replace_file(self.folder / FILE_NAME, "".join(f"{stamp}\n" for stamp in stamps))
        self._stamps = stamps
