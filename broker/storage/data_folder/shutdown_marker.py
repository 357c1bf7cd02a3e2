"""How the last run of this data folder ended: cleanly, by a crash, or in a way that may have lost the logs' tails.

A file written last on a clean shutdown and deleted first on a start tells the first case. Next to it stands the boot id
of the kernel that ran the broker: if the machine has not been booted since, a crash of the process lost nothing, because
the page cache outlived it. Otherwise the tails are *suspect*: records that were acked may be gone, and the controller
must hear of it before this broker counts as in sync again. The suspicion stays on disk until that was done.
"""

import threading
from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file, sync_folder

MARKER_FILE = ".clean-shutdown"
BOOT_ID_FILE = ".boot-id"
SUSPECT = "suspect"


def current_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


class ShutdownMarker:
    """The two files. ``unclean``: logs need recovery. ``tail_suspect``: records may be lost."""

    def __init__(self, folder: Path, boot_id: str, *, fresh: bool) -> None:
        """Look at how the last run ended; ``fresh`` if there was none. The marker is gone afterwards."""
        self._marker = folder / MARKER_FILE
        self._boot_id_file = folder / BOOT_ID_FILE
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self.unclean = not (fresh or self._marker.exists())
        self.tail_suspect = self.unclean and self._read_boot_id() != boot_id
        self.unreported = self.tail_suspect
        if self._marker.exists():
            self._marker.unlink()
            sync_folder(folder)
        if (
            not self.tail_suspect and self._read_boot_id() != boot_id
        ):  # a full disk does not keep a broker from starting
            replace_file(self._boot_id_file, boot_id + "\n")

    def suspect(self) -> None:
        """Recovery is about to cut records that may have been acked. Called by the threads that open logs."""
        with self._lock:
            self.tail_suspect = self.unreported = True
            replace_file(self._boot_id_file, SUSPECT + "\n")

    def tail_reported(self) -> None:
        """The controller knows that tails are suspect: the next crash is judged by itself."""
        if self.unreported:
            replace_file(self._boot_id_file, self._boot_id + "\n")
            self.unreported = False

    def write(self) -> None:
        """The shutdown was clean; unless a suspicion is still to be reported. The last write of a run."""
        if not self.unreported:
            replace_file(self._marker, self._boot_id + "\n")

    def _read_boot_id(self) -> str:
        try:
            return self._boot_id_file.read_text("utf-8").strip()
        except (FileNotFoundError, ValueError):
            return ""
