"""Whether the data folders hold what this broker had acknowledged. Decides nothing: the controller draws the consequences.

A folder that is empty, not mounted, replaced, or put back from a backup looks clean by itself. So the folders bear stamps
(storage/data_stamps.py), the last of which stands in ZooKeeper too, with the ids of all folders that must bear it.
"""

import logging
from collections.abc import Sequence

from ottla.broker.storage.log_dir import LogDir
from ottla.zk.broker_znodes import BrokerDataZnode, DataState

logger = logging.getLogger(__name__)


class DataTrust:
    """All data folders of a broker."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        self._log_dirs = log_dirs

    def judge(self, known: BrokerDataZnode | None) -> DataState:
        """What the folders hold, by what ZooKeeper knows of them. A folder that it has never known is new, and may be empty."""
        stamps = {log_dir.data_uuid: log_dir.stamps for log_dir in self._log_dirs}
        for folder in known.folders if known is not None else ():
            assert known is not None
            if folder not in stamps:
                logger.error("a data folder is missing, or another one stands in its place: folder_id=%s", folder)
                return DataState.LOST
            if known.stamp not in stamps[folder]:
                logger.error(
                    "a data folder is older than what this broker last wrote: folder=%s", stamps[folder].folder
                )
                return DataState.LOST
        if any(log_dir.tail_unreported for log_dir in self._log_dirs):
            return DataState.TAIL_SUSPECT
        return DataState.WHOLE

    def stamp(self, stamp: str) -> BrokerDataZnode:
        """Stamp all folders; gives what ZooKeeper must know from then on. Slow."""
        for log_dir in self._log_dirs:
            log_dir.stamps.add(stamp)
        return BrokerDataZnode(stamp, tuple(log_dir.data_uuid for log_dir in self._log_dirs))

    def reported(self) -> None:
        """A controller has drawn the consequences of suspect tails: the next crash is judged by itself. Slow."""
        for log_dir in self._log_dirs:
            log_dir.tail_reported()
