"""Whether the data folders hold what this broker had acknowledged. Decides nothing: the controller draws the consequences.

A folder that is empty, not mounted, replaced, or put back from a backup looks clean by itself. So the folders bear stamps
(storage/data_folder/data_stamps.py), the last of which stands in ZooKeeper too, with the ids of all folders that must bear it.
"""

import threading
import uuid
from collections.abc import Sequence

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.wire.names import TopicPartition
from ottla.zk.znodes.brokers import BrokerDataZnode, DataState

LOST_PARTITIONS_MAX = 2000
"""How many lost partitions a registration names: a znode has room for a megabyte, and a topic's name for 249 characters."""


class DataTrust:
    """All data folders of a broker."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        self._log_dirs = log_dirs
        self._lock = threading.Lock()
        self.why_lost = ""
        """Why the folders were last judged to be lost; empty if they were not."""
        self._unconfirmed = ""  # the stamp that folders bear and ZooKeeper may not know: no other one before it does

    def judge(self, known: BrokerDataZnode | None) -> DataState:
        """What the folders hold, by what ZooKeeper knows of them. A folder that it has never known is new, and may be empty."""
        self.why_lost = self._why_not(known) if known is not None else ""
        # Also if all is lost: the registration says so of each partition, and one of them may be elected all the same.
        lost = self.lost_partitions()
        if not self.why_lost and len(lost) > LOST_PARTITIONS_MAX:
            self.why_lost = f"more than {LOST_PARTITIONS_MAX} partitions are missing or too short"
        if self.why_lost:
            return DataState.LOST
        if any(log_dir.tail_unreported for log_dir in self._log_dirs):
            return DataState.TAIL_SUSPECT
        return DataState.WHOLE

    def lost_partitions(self) -> frozenset[TopicPartition]:
        """The partitions whose records are missing by what the checkpoints say; the registration must name them.

        A folder that somebody moved to another data folder is not missing.
        """
        for log_dir in self._log_dirs:
            log_dir.lost.announced = frozenset(
                where
                for where in log_dir.lost.losses
                if where in log_dir.logs or not any(where in other.logs for other in self._log_dirs)
            )
        return frozenset[TopicPartition]().union(*(log_dir.lost.announced for log_dir in self._log_dirs))

    def _why_not(self, known: BrokerDataZnode) -> str:
        """Why the folders are not those that were stamped last; empty if they are."""
        here = {log_dir.data_uuid: log_dir for log_dir in self._log_dirs}
        for folder in known.folders:
            if folder not in here:
                return f"folder {folder} is missing, or another one stands in its place"
            if known.stamp not in here[folder].stamps:
                return f"folder {here[folder].folder} is older than what this broker last wrote"
        return ""

    def stamp(self) -> BrokerDataZnode:
        """Stamp all folders; gives what ZooKeeper must know from then on, and that must be ``confirmed``. Slow."""
        with self._lock:
            self._unconfirmed = stamp = self._unconfirmed or uuid.uuid4().hex
            for log_dir in self._log_dirs:
                if stamp not in log_dir.stamps:
                    log_dir.stamps.add(stamp)
        return BrokerDataZnode(stamp, tuple(log_dir.data_uuid for log_dir in self._log_dirs))

    def confirmed(self, data: BrokerDataZnode) -> None:
        """ZooKeeper knows a stamp."""
        with self._lock:
            if self._unconfirmed == data.stamp:
                self._unconfirmed = ""

    def reported(self) -> None:
        """A controller has drawn the consequences of suspect tails: the next crash is judged by itself. Slow."""
        for log_dir in self._log_dirs:
            log_dir.tail_reported()
