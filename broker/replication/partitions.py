"""All partitions on this broker: found by name on the hot path, made, told and deleted by the controller's requests."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ottla.broker.replication.partition import Partition, PartitionEvents
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.data_folder.lost_partitions import Loss, Lost
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig, sensible_topic_config
from ottla.wire.control import PartitionState, StopReplicaPart, TopicConfig
from ottla.wire.errors import InconsistentTopicId, OttlaError, StaleBrokerEpoch, StorageError, UnknownTopicOrPartition
from ottla.wire.names import NO_EPOCH, TopicPartition

logger = logging.getLogger(__name__)

OPEN_THREADS = 8
"""How many new logs are made at once: each mostly waits for fsync."""


class TopicRules(NamedTuple):
    """What a topic's settings mean on this broker."""

    log: LogConfig
    min_insync: int


class Partitions:
    """The replicas of this broker. What happens to them is told through ``events``."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: Sequence[LogDir],
        defaults: LogConfig,
        min_insync: int,
        events: PartitionEvents,
    ) -> None:
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self._defaults = defaults
        self._default_min_insync = min_insync
        self._events = events
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._configs: dict[str, TopicRules] = {}
        self._topic_configs: dict[str, Mapping[str, int | bool | str]] = {}
        """What topics say themselves."""
        self._step_downs = 0
        self._told: dict[tuple[str, int], tuple[int, bool]] = {}
        """In which life of this broker it was last told of each, and whether its records of it are waited for."""
        self._changing = asyncio.Lock()  # one control request at a time: each may wait for the disk in the middle
        self._remover = ThreadPoolExecutor(1, "remove-logs")

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def led(self, topic: str, partition: int, leader_epoch: int, topic_id: str = "") -> Partition:
        """The partition, if this broker leads it in that epoch, and of that topic if an id is given;

        raises what a client should know otherwise.
        """
        found = self._partitions.get((topic, partition))
        if found is None:
            raise UnknownTopicOrPartition(
                f"broker {self._broker_id} has no {topic}-{partition}", topic=topic, partition=partition
            )
        if topic_id and topic_id != found.log.topic_id:
            raise InconsistentTopicId(f"{found.where} is of topic id {found.log.topic_id} here, not {topic_id}")
        found.check_leader(leader_epoch)
        return found

    def get(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))

    def names(self) -> set[tuple[str, int]]:
        """All that are served here, by topic and number; those that cannot be, for want of their log, are not waited for."""
        broken = {where for log_dir in self._log_dirs for where in log_dir.failed}
        refused = {where for log_dir in self._log_dirs for where in log_dir.lost.losses.keys() - log_dir.lost.announced}
        return self._partitions.keys() | broken | refused

    def told_in(self, broker_epoch: int) -> set[tuple[str, int]]:
        """All of which the controller has spoken in this life of the broker, and those whose log cannot be opened."""
        broken = {where for log_dir in self._log_dirs for where in log_dir.failed}
        return {where for where, (told_in, _) in self._told.items() if told_in == broker_epoch} | broken

    @property
    def waited_for(self) -> bool:
        """Whether a partition has no leader because this broker came back without its records of it."""
        return any(lost for _, lost in self._told.values())

    def log_start_offset(self, topic: str, partition: int) -> int:
        found = self._partitions.get((topic, partition))
        return found.log.log_start_offset if found is not None else -1

    def log_shortened(self, where: TopicPartition) -> None:
        """Retention has let its oldest records go."""
        partition = self._partitions.get(where)
        if partition is not None:
            self._events.changed(partition)

    # --- what the controller asks --------------------------------------------------------------------------------------

    async def apply(
        self, states: Sequence[PartitionState], topics: Iterable[TopicConfig], broker_epoch: int = NO_EPOCH
    ) -> dict[TopicPartition, OttlaError]:
        """Lead or follow these; why, for each that could not be taken on. ``broker_epoch``: which life of it was told."""
        failed: dict[TopicPartition, OttlaError] = {}
        step_downs = self._step_downs
        async with self._changing:
            self._check_not_fenced_since(step_downs)
            self.configure(topics)
            missing = [state for state in states if (state.topic, state.partition) not in self._partitions]
            made = await asyncio.to_thread(self._open_logs, missing) if missing else {}
            self._check_not_fenced_since(step_downs)
            await self._settle_losses(states)
            self._check_not_fenced_since(step_downs)
            for state in states:
                where = TopicPartition(state.topic, state.partition)
                try:
                    if where in made:
                        self._adopt(where, made[where])
                    partition = self._partitions[where]
                    if partition.log.topic_id != state.topic_id:
                        raise InconsistentTopicId(
                            f"{where} is of topic id {partition.log.topic_id} here, not {state.topic_id}"
                        )
                    if partition.apply(state, time.monotonic(), broker_epoch):
                        self._events.role(partition)
                        logger.info(
                            "partition state taken partition=%s leader=%d leader_epoch=%d isr=%s",
                            where, state.leader, state.leader_epoch, state.isr,
                        )  # fmt: skip
                    if partition.log.failed:
                        raise StorageError(f"the disk under {where} failed")
                except OttlaError as error:
                    logger.error("partition state refused partition=%s error=%s", where, error)
                    failed[where] = error
                self._told[where] = broker_epoch, self._broker_id in state.lost
        return failed

    async def _settle_losses(self, states: Sequence[PartitionState]) -> None:
        """Forget losses that the controller has acted on: it does not count this replica any more, or elected it all the same.

        Where it names this replica as lost, the partition waits for its records, and the next registration says so again.
        """
        for log_dir in self._log_dirs:
            settled = {
                where: lost.loss
                for state in states
                if (lost := log_dir.lost.losses.get(where := TopicPartition(state.topic, state.partition))) is not None
                and ((state.leader == self._broker_id and where in log_dir.lost.announced) or not self._counts(state))
            }
            for state in states:
                where = TopicPartition(state.topic, state.partition)
                log = log_dir.logs.get(where)
                if settled.get(where) is Loss.START and state.leader != self._broker_id and log is not None:
                    log.truncate_fully_and_start_at(0)  # to copy what is missing at the beginning, too
            if settled:
                try:
                    await asyncio.to_thread(log_dir.lost.remove, settled.keys())
                except OSError as error:  # after a restart this replica is taken for lost again, which loses nothing
                    logger.error("lost partitions could not be forgotten partitions=%s error=%s", settled, error)

    def _counts(self, state: PartitionState) -> bool:
        """Whether the controller takes this replica for one that has all that is committed."""
        return self._broker_id in (state.leader, *state.isr, *state.elr)

    def configure(self, topics: Iterable[TopicConfig]) -> None:
        """Take new topic settings, and put them into force where the topic is."""
        changed: dict[str, TopicRules] = {}
        for topic in topics:
            rules = self._rules_of(topic)
            if self._configs.get(topic.topic) != rules:
                self._configs[topic.topic] = changed[topic.topic] = rules
        for partition in self._partitions.values() if changed else ():
            if partition.where.topic in changed:
                self._put_in_force(partition, changed[partition.where.topic])

    def set_defaults(self, defaults: LogConfig, min_insync: int) -> None:
        """Put other settings of this broker into force where topics say nothing."""
        self._defaults, self._default_min_insync = defaults, min_insync
        self._configs = {topic: self._rules_by(parsed) for topic, parsed in self._topic_configs.items()}
        for partition in self._partitions.values():
            self._put_in_force(partition, self._rules(partition.where.topic))

    def _rules_of(self, topic: TopicConfig) -> "TopicRules":
        parsed, nonsense = sensible_topic_config(topic.config)
        for error in nonsense:
            logger.warning("topic config ignored topic=%s error=%s", topic.topic, error)
        self._topic_configs[topic.topic] = parsed
        return self._rules_by(parsed)

    def _rules_by(self, parsed: Mapping[str, int | bool | str]) -> "TopicRules":
        min_insync = int(parsed.get("min.insync.replicas", self._default_min_insync))
        return TopicRules(self._defaults.with_topic_config(parsed), min_insync)

    def _put_in_force(self, partition: Partition, rules: "TopicRules") -> None:
        before = partition.min_insync, partition.durable
        partition.log.config, partition.min_insync = rules.log, rules.min_insync
        if before != (partition.min_insync, partition.durable):
            partition.flushed()  # more or less is committed by the new rule, and those who wait must hear of it

    async def stop(self, parts: Sequence[StopReplicaPart]) -> None:
        """Serve these no more, and delete those that are to go."""
        async with self._changing:
            to_delete: dict[TopicPartition, str] = {}
            for part in parts:
                where = TopicPartition(part.topic, part.partition)
                partition = self._partitions.get(where)
                if partition is not None and partition.log.topic_id == part.topic_id:
                    if partition.leader_epoch > part.leader_epoch:
                        logger.info("old order to stop ignored partition=%s leader_epoch=%d", where, part.leader_epoch)
                        continue  # it has come back to this broker since
                    del self._partitions[where]
                    self._step_down(partition)
                self._told.pop(where, None)
                if part.delete:
                    to_delete[where] = part.topic_id
            if to_delete:
                await asyncio.to_thread(self._delete_logs, to_delete)

    async def close(self) -> None:
        self.step_down_all()
        self._remover.shutdown(wait=False, cancel_futures=True)  # what is left is removed at the next start
        for log_dir in self._log_dirs:
            await asyncio.to_thread(log_dir.close)

    def step_down_all(self) -> None:
        """Lead and follow nothing any more, until the controller says so again."""
        self._step_downs += 1
        for partition in self._partitions.values():
            self._step_down(partition)

    def _check_not_fenced_since(self, step_downs: int) -> None:
        """Raise if everything was given up since an order came: it was meant for the life of this broker that is over.

        Orders wait here, for each other and for the disk; what was true when they came must be looked at again.
        """
        if self._step_downs != step_downs:
            raise StaleBrokerEpoch("this broker was fenced before it could obey")

    def _step_down(self, partition: Partition) -> None:
        partition.step_down()
        self._events.role(partition)

    # --- logs ----------------------------------------------------------------------------------------------------------

    def _open_logs(self, states: Sequence[PartitionState]) -> dict[TopicPartition, Log | OttlaError]:
        """Find or make logs; in threads, for each new one waits for the disk several times."""
        log_dirs = self._dirs_for([TopicPartition(state.topic, state.partition) for state in states])
        with ThreadPoolExecutor(OPEN_THREADS, "make-log") as threads:
            opened = list(threads.map(self._open_log, states, log_dirs))
        try:
            for log_dir in dict.fromkeys(log_dirs):
                log_dir.checkpoint_recovery_points()  # once for all: they tell which partitions must have a folder
        except OSError as error:
            return {
                TopicPartition(state.topic, state.partition): StorageError(f"new logs could not be noted: {error}")
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
                self._delete_logs({where: stale.topic_id})
            elif stale is None and where not in log_dir.failed and self._has_lost_folder(state):
                log_dir.lost.add({where: Lost(Loss.FOLDER, 0)})
                raise StorageError(f"{where} has no folder here, though this broker is said to have its records")
            return log_dir.create_log(where, state.topic_id, self._rules(state.topic).log)
        except OttlaError as error:
            return error
        except OSError as error:
            return StorageError(f"no log for {where}: {error}")

    def _has_lost_folder(self, state: PartitionState) -> bool:
        """Whether a partition that this replica counts for may have had a folder here, and the controller does not know that.

        The recovery points name all folders. Only if they are lost as well, a partition without one is not sure to be new.
        """
        if not self._counts(state) or state.leader_epoch == 0:
            return False
        where = TopicPartition(state.topic, state.partition)
        if any(where in log_dir.lost.losses for log_dir in self._log_dirs):
            return not any(where in log_dir.lost.announced for log_dir in self._log_dirs)
        return not all(log_dir.knows_partitions for log_dir in self._log_dirs)

    def _dirs_for(self, partitions: Sequence[TopicPartition]) -> list[LogDir]:
        """The data folder that has a partition; a new one goes where the fewest are, with those that come with it."""
        counts = [len(log_dir.logs) for log_dir in self._log_dirs]
        found = []
        for where in partitions:
            log_dir = self._dir_of(where)
            if log_dir is None:
                fewest = counts.index(min(counts))
                counts[fewest] += 1
                log_dir = self._log_dirs[fewest]
            found.append(log_dir)
        return found

    def _dir_of(self, where: TopicPartition) -> LogDir | None:
        """The data folder that has the partition."""
        for log_dir in self._log_dirs:
            if where in log_dir.logs or where in log_dir.failed:
                return log_dir
        return None

    def _adopt(self, where: TopicPartition, log: Log | OttlaError) -> None:
        if isinstance(log, OttlaError):
            raise log
        hint = self._dirs_for([where])[0].high_watermark(where)
        partition = self._partitions[where] = Partition(where, self._broker_id, log, hint, self._events)
        self._put_in_force(partition, self._rules(where.topic))

    def _rules(self, topic: str) -> "TopicRules":
        return self._configs.get(topic) or TopicRules(self._defaults, self._default_min_insync)

    def _delete_logs(self, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Delete partitions' logs, those that are of that topic and not of a later one of the same name.

        Their folders are renamed, durably; a thread removes the files afterwards, for that takes long and nobody need wait.
        """
        errors: list[OSError] = []
        nowhere = [where for where in topic_ids if self._dir_of(where) is None]
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
