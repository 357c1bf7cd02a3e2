"""All partitions on this broker: found by name on the hot path, made, told and deleted by the controller's requests."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.replica_logs import ReplicaLogs
from ottla.broker.storage.config_kinds import ConfigValue
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.data_folder.lost_partitions import Loss
from ottla.broker.storage.disk_health import DiskShortage
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig, warn_of_small_segments
from ottla.broker.storage.topic_configs import sensible_topic_config
from ottla.wire.control import PartitionState, StopReplicaPart, TopicConfig
from ottla.wire.errors import (
    InconsistentTopicId,
    OttlaError,
    ReplicaNotAvailable,
    StaleBrokerEpoch,
    StorageError,
    UnknownTopicOrPartition,
)  # fmt: skip
from ottla.wire.names import NO_EPOCH, TopicPartition

logger = logging.getLogger(__name__)


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
        self._topic_configs: dict[str, Mapping[str, ConfigValue]] = {}
        """What topics say themselves."""
        self._step_downs = 0
        self._told: dict[tuple[str, int], tuple[int, bool]] = {}
        """In which life of this broker it was last told of each, and whether its records of it are waited for."""
        self._postponed: dict[TopicPartition, tuple[PartitionState, int]] = {}
        """What the controller said, and in which life, of partitions whose log could not be made for want of descriptors."""
        self._mended: set[TopicPartition] = set()
        self.on_postponed: Callable[[], None] = lambda: None  # when there is something for ``apply_postponed``
        self._changing = asyncio.Lock()  # one control request at a time: each may wait for the disk in the middle
        self._logs = ReplicaLogs(broker_id, log_dirs, lambda topic: self._rules(topic).log)

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

    def leads(self, where: TopicPartition) -> bool:
        """Whether this broker leads the partition."""
        partition = self._partitions.get(where)
        return partition is not None and partition.is_leader

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of all partitions that are served here."""
        return {partition.where: partition.high_watermark for partition in self._partitions.values()}

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
        """Retention has let its oldest records go: followers hear of it, and do the same."""
        partition = self._partitions.get(where)
        if partition is not None:
            self._events.changed(partition)
            self._events.start_moved(partition)

    # --- what the controller asks --------------------------------------------------------------------------------------

    async def apply(
        self, states: Sequence[PartitionState], topics: Iterable[TopicConfig], broker_epoch: int = NO_EPOCH
    ) -> dict[TopicPartition, OttlaError]:
        """Lead or follow these; why, for each that could not be taken on. ``broker_epoch``: which life of it was told."""
        step_downs = self._step_downs
        async with self._changing:
            self._check_not_fenced_since(step_downs)
            self.configure(topics)
            return await self._take_all(states, broker_epoch, step_downs)

    async def apply_postponed(self) -> bool:
        """Lead or follow what there were no descriptors or no room for; whether nothing is left.

        The controller was not told of that: a shortage passes, and a partition whose log is to be made has no records here yet.
        """
        async with self._changing:
            by_life: dict[int, list[PartitionState]] = {}
            for state, broker_epoch in self._postponed.values():
                by_life.setdefault(broker_epoch, []).append(state)
            for broker_epoch, states in by_life.items():
                await self._take_all(states, broker_epoch, self._step_downs)
            return not self._postponed

    async def _take_all(
        self, states: Sequence[PartitionState], broker_epoch: int, step_downs: int
    ) -> dict[TopicPartition, OttlaError]:
        failed: dict[TopicPartition, OttlaError] = {}
        missing = [state for state in states if (state.topic, state.partition) not in self._partitions]
        made = await asyncio.to_thread(self._logs.open_all, missing) if missing else {}
        self._check_not_fenced_since(step_downs)
        made |= await self._settle_losses(states)
        self._check_not_fenced_since(step_downs)
        for state in states:
            where = TopicPartition(state.topic, state.partition)
            was_postponed = self._postponed.pop(where, None) is not None
            try:
                refused_or_log = made.get(where)
                if isinstance(refused_or_log, OttlaError):
                    raise refused_or_log
                if refused_or_log is not None:
                    self._adopt(where, refused_or_log)
                self._take(where, state, broker_epoch)
            except (DiskShortage, ReplicaNotAvailable) as error:
                if not was_postponed:
                    logger.warning("partition state postponed partition=%s error=%s", where, error)
                self._postponed[where] = state, broker_epoch
                self.on_postponed()
            except OttlaError as error:
                logger.error("partition state refused partition=%s error=%s", where, error)
                failed[where] = error
            self._told[where] = broker_epoch, self._broker_id in state.lost
        if self._mended:
            await self._forget_mended()
        return failed

    def _take(self, where: TopicPartition, state: PartitionState, broker_epoch: int) -> None:
        """Lead or follow one partition that has a log."""
        partition = self._partitions[where]
        if partition.log.topic_id != state.topic_id:
            raise InconsistentTopicId(f"{where} is of topic id {partition.log.topic_id} here, not {state.topic_id}")
        if partition.apply(state, time.monotonic(), broker_epoch):
            self._settle_damage(partition, state)
            self._events.role(partition)
            logger.info(
                "partition state taken partition=%s leader=%d leader_epoch=%d isr=%s",
                where, state.leader, state.leader_epoch, state.isr,
            )  # fmt: skip
        if partition.log.failed:
            raise StorageError(f"the disk under {where} failed")

    def _settle_damage(self, partition: Partition, state: PartitionState) -> None:
        """Cut a log with a damaged batch that does not count any more, before it follows; look again at one that counts."""
        log_dir = self._logs.dir_of(partition.where)
        offset = log_dir.damaged.offsets.get(partition.where) if log_dir is not None else None
        if offset is None:
            return
        if self._logs.counts(state):
            self._events.suspected(partition, offset)
        else:
            partition.drop_damaged(offset)
            logger.warning("log was cut before a damaged batch partition=%s offset=%d", partition.where, offset)
            self._mended.add(partition.where)

    async def _forget_mended(self) -> None:
        """Once it is noted that their damage is cut, a restart does not cut again."""
        mended, self._mended = self._mended, set()
        for log_dir in self._log_dirs:
            try:
                await asyncio.to_thread(log_dir.damaged.forget, mended)
            except OSError as error:  # after a restart the batch is looked at again
                logger.error("mended partitions were not forgotten partitions=%s error=%s", mended, error)

    async def _settle_losses(self, states: Sequence[PartitionState]) -> dict[TopicPartition, OttlaError]:
        """Forget losses that the controller has acted on: it does not count this replica any more, or elected it all the same.

        Where it names this replica as lost, the partition waits for its records, and the next registration says so again.
        Gives the partitions whose log could not be emptied to be copied anew: their loss stays, and the others go on.
        """
        refused: dict[TopicPartition, OttlaError] = {}
        for log_dir in self._log_dirs:
            settled = {
                where: lost.loss
                for state in states
                if (lost := log_dir.lost.losses.get(where := TopicPartition(state.topic, state.partition))) is not None
                and (
                    (state.leader == self._broker_id and where in log_dir.lost.announced)
                    or not self._logs.counts(state)
                )
            }
            for state in states:
                where = TopicPartition(state.topic, state.partition)
                log = log_dir.logs.get(where)
                if settled.get(where) is Loss.START and state.leader != self._broker_id and log is not None:
                    try:
                        log.truncate_fully_and_start_at(0)  # to copy what is missing at the beginning, too
                    except OttlaError as error:
                        refused[where] = error
                        del settled[where]
            if settled:
                try:
                    await asyncio.to_thread(log_dir.lost.remove, settled.keys())
                except OSError as error:  # after a restart this replica is taken for lost again, which loses nothing
                    logger.error("lost partitions could not be forgotten partitions=%s error=%s", settled, error)
        return refused

    def prefer_folder(self, where: TopicPartition, log_dir: LogDir) -> None:
        """A replica that is not here yet shall be made in this data folder."""
        self._logs.prefer(where, log_dir)

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
        if parsed != self._topic_configs.get(topic.topic):
            warn_of_small_segments(f"topic {topic.topic}", parsed.get("segment.bytes"))
            self._topic_configs[topic.topic] = parsed
        return self._rules_by(parsed)

    def _rules_by(self, parsed: Mapping[str, ConfigValue]) -> "TopicRules":
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
                if self._topic_id_here(where) in ("", part.topic_id):  # else a later topic of the name is here by now
                    self._told.pop(where, None)
                    self._postponed.pop(where, None)
                if part.delete:
                    to_delete[where] = part.topic_id
            if to_delete:
                await asyncio.to_thread(self._logs.delete, to_delete)

    def _topic_id_here(self, where: TopicPartition) -> str:
        """Of which topic a partition is that is served here, or will be once its log can be made; empty if there is none."""
        if where in self._partitions:
            return self._partitions[where].log.topic_id
        return self._postponed[where][0].topic_id if where in self._postponed else ""

    async def close(self) -> None:
        self.step_down_all()
        self._logs.close()
        for log_dir in self._log_dirs:
            await asyncio.to_thread(log_dir.close)

    def step_down_where_replaced(self, view: ClusterView) -> list[TopicPartition]:
        """Lead nothing more of which a later leader epoch is known, nor of a topic that was created anew; gives what was led.

        The controller says so, too, or gives this broker everything anew when it is registered again. Of a topic that
        ``view`` does not have nothing is concluded: it may be too new for it.
        """
        replaced = [
            partition
            for partition in self._partitions.values()
            if partition.is_leader and _is_replaced(partition, view)
        ]
        for partition in replaced:
            if view.topic_id_of(partition.where.topic) == partition.log.topic_id:
                # A LeaderAndIsr request of the replaced epoch may wait here, or come late: it is out of date.
                partition.version = max(partition.version, view.state_version_of(*partition.where))
            self._step_down(partition)
        return [partition.where for partition in replaced]

    def step_down_all(self) -> None:
        """Lead and follow nothing any more, until the controller says so again."""
        self._step_downs += 1
        self._postponed.clear()
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

    def _adopt(self, where: TopicPartition, log: Log) -> None:
        hint = self._logs.dirs_for([where])[0].high_watermark(where)
        partition = self._partitions[where] = Partition(where, self._broker_id, log, hint, self._events)
        self._put_in_force(partition, self._rules(where.topic))

    def _rules(self, topic: str) -> "TopicRules":
        return self._configs.get(topic) or TopicRules(self._defaults, self._default_min_insync)


def _is_replaced(partition: Partition, view: ClusterView) -> bool:
    topic_id = view.topic_id_of(partition.where.topic)
    if topic_id != partition.log.topic_id:
        return topic_id != ""
    return view.leader_of(*partition.where)[1] > partition.leader_epoch
