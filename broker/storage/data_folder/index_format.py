"""The form of the ``.index`` and ``.timeindex`` files of a data folder, marked by a file. Those of an older form are rebuilt.

Indexes name the last offset of each batch, as Kafka's do, so that Kafka's DumpLogSegments can check them. Older ones name the
first offset. A folder without the mark may have such files: they are removed when its logs are opened, which builds new
ones from the batch headers, and the folder is marked once all are.
"""

import logging
from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file
from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.segments.segment_files import base_offsets, remove_index

logger = logging.getLogger(__name__)

FORMAT_FILE = ".index-format"
LAST_OFFSETS = "last-offset"


class IndexFormat:
    """The mark of one data folder. ``is_old``: indexes may be of an older form until ``mark`` is called."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FORMAT_FILE
        try:
            self.is_old = self._path.read_text("utf-8").strip() != LAST_OFFSETS
        except (FileNotFoundError, ValueError):
            self.is_old = True

    def remove_old(self, partition_folder: Path) -> None:
        """Remove the indexes of one log if they may be of an older form. Slow."""
        if self.is_old:
            for base_offset in base_offsets(partition_folder):
                remove_index(partition_folder, base_offset)

    def mark(self, logs: int) -> None:
        """All logs have been opened: their indexes are of today's form."""
        if not self.is_old:
            return
        if logs:
            logger.info("indexes rebuilt, for their entries are the last offsets of batches now: logs=%d", logs)
        try:
            replace_file(self._path, LAST_OFFSETS + "\n")
        except OSError as error:
            if not is_shortage(error):
                raise
            logger.warning("form of indexes not noted, they are rebuilt at the next start: error=%s", error)
        self.is_old = False
