"""The names of the partitions' folders in a data folder: made durable once for all that were made together."""

import threading
from pathlib import Path

from ottla.broker.storage.checkpoint_file import sync_folder


class FolderNames:
    """A log counts as flushed only once its folder would be found after a power cut: see ``sync``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 1  # what is there already may be of a run that crashed before it was synced
        self._synced = 0
        self._counting = threading.Lock()
        self._syncing = threading.Lock()

    def made(self) -> None:
        """There is a new folder."""
        with self._counting:
            self._made += 1

    def sync(self) -> None:
        """Return when all folders that were made by now are durable. Slow, unless somebody else has just done it."""
        with self._syncing:
            with self._counting:
                made = self._made
            if self._synced < made:
                sync_folder(self._folder)
                self._synced = made
