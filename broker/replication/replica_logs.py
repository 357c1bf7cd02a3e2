"""The logs of this broker's replicas: found or made in its data folders, and deleted. Used by ``Partitions``, in threads."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.data_folder.lost_partitions import Loss, Lost
from ottla.broker.storage.disk_health import DiskShortage, is_shortage
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.control import PartitionState
from ottla.wire.errors import OttlaError, StorageError
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)

OPEN_THREADS = 8
"""How many new logs are made at once: each mostly waits for fsync."""

PREFERENCES_MAX = 10_000
"""Replicas that are not here yet and whose folder a client has named; the oldest wish is forgotten first."""


class ReplicaLogs:
    """The logs in all data folders of one broker. Methods are slow."""

    def __init__(self, broker_id: int, log_dirs: Sequence[LogDir], config_of: Callable[[str], LogConfig]) -> None:
        """``config_of`` gives what a topic's new log obeys."""
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self._config_of = config_of
        self._preferred: dict[TopicPartition, LogDir] = {}
        self._remover = ThreadPoolExecutor(1, "remove-logs")

    def close(self) -> None:
        """Stop removing files. What is left is removed at the next start."""
        self._remover.shutdown(wait=False, cancel_futures=True)

    def counts(self, state: PartitionState) -> bool:
        """Whether the controller takes this broker's replica for one that has all committed records."""
        return self._broker_id in (state.leader, *state.isr, *state.elr)

    def open_all(self, states: Sequence[PartitionState]) -> dict[TopicPartition, Log | OttlaError]:
        """Find or make logs; in threads, for each new one waits for the disk several times."""
        log_dirs = self.dirs_for([TopicPartition(state.topic, state.partition) for state in states])
        with ThreadPoolExecutor(OPEN_THREADS, "make-log") as threads:
            opened = list(threads.map(self._open_log, states, log_dirs))
        try:
            for log_dir in dict.fromkeys(log_dirs):
                log_dir.checkpoint_recovery_points()  # once for all: they tell which partitions must have a folder
        except OSError as error:
            kind = DiskShortage if is_shortage(error) else StorageError
            return {
                TopicPartition(state.topic, state.partition): kind(f"new logs could not be noted: {error}")
                for state in states
            }
        return {TopicPartition(state.topic, state.partition): log for state, log in zip(states, opened, strict=True)}

    def _open_log(self, state: PartitionState, log_dir: LogDir) -> Log | OttlaError:
        where = TopicPartition(state.topic, state.partition)
        try:
            stale = log_dir.logs.get(where)
            if stale is not None and stale.topic_id != state.topic_id:
                # The topic was deleted and created anew while this broker was away: the controller names the new
                # one, so the old one's records are nobody's, and they must not mix with the new ones.
                logger.warning("partition of a deleted topic found partition=%s topic_id=%s", where, stale.topic_id)
                self.delete({where: stale.topic_id})
            elif stale is None and where not in log_dir.failed and self._has_lost_folder(state):
                log_dir.lost.add({where: Lost(Loss.FOLDER, 0)})
                raise StorageError(f"{where} has no folder here, though this broker is said to have its records")
            return log_dir.create_log(where, state.topic_id, self._config_of(state.topic))
        except OttlaError as error:
            return error
        except OSError as error:
            return (DiskShortage if is_shortage(error) else StorageError)(f"no log for {where}: {error}")

    def _has_lost_folder(self, state: PartitionState) -> bool:
        """Whether a partition that this replica counts for may have had a folder here, and the controller does not know that.

        The recovery points name all folders. Only if they are lost as well, a partition without one is not sure to be new.
        """
        if not self.counts(state) or state.leader_epoch == 0:
            return False
        where = TopicPartition(state.topic, state.partition)
        if any(where in log_dir.lost.losses for log_dir in self._log_dirs):
            return not any(where in log_dir.lost.announced for log_dir in self._log_dirs)
        return not all(log_dir.knows_partitions for log_dir in self._log_dirs)

    def dirs_for(self, partitions: Sequence[TopicPartition]) -> list[LogDir]:
        """The data folder that has a partition; a new one goes where it is preferred, or where the fewest are."""
        counts = [len(log_dir.logs) for log_dir in self._log_dirs]
        found = []
        for where in partitions:
            log_dir = self.dir_of(where)
            if log_dir is None:
                preferred = self._preferred.pop(where, None)
                chosen = counts.index(min(counts)) if preferred is None else self._log_dirs.index(preferred)
                counts[chosen] += 1
                log_dir = self._log_dirs[chosen]
            found.append(log_dir)
        return found

    def prefer(self, where: TopicPartition, log_dir: LogDir) -> None:
        """Make a replica in this folder when the controller wants it here, if that is before the next restart."""
        self._preferred.pop(where, None)
        self._preferred[where] = log_dir
        if len(self._preferred) > PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def dir_of(self, where: TopicPartition) -> LogDir | None:
        """The data folder that has the partition."""
        for log_dir in self._log_dirs:
            if where in log_dir.logs or where in log_dir.failed:
                return log_dir
        return None

    def delete(self, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Delete partitions' logs, those that are of that topic and not of a later one of the same name.

        Their folders are renamed, durably; a thread removes the files afterwards, for that takes long and nobody need wait.
        """
        errors: list[OSError] = []
        nowhere = [where for where in topic_ids if self.dir_of(where) is None]
        for log_dir in self._log_dirs:
            logs = [where for where in topic_ids if where in log_dir.logs]
            logs = [where for where in logs if log_dir.logs[where].topic_id == topic_ids[where]]
            doomed, failed = log_dir.delete_logs(logs) if logs else ([], None)
            errors += [failed] if failed is not None else []
            for folder in doomed:
                self._remover.submit(log_dir.remove_folder, folder)
        for log_dir in self._log_dirs if nowhere else ():
            log_dir.forget(nowhere)
        if errors:
            raise errors[0]
