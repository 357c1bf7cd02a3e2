"""The cluster as this broker knows it: the metadata cache that every broker has and any client may ask."""

import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ottla.broker.failed_listeners import FailedListeners
from ottla.wire.control import GroupSettings, PartitionState, SettingsTold, TopicConfig, UpdateMetadataRequest
from ottla.wire.errors import InvalidRequest, UnknownTopicOrPartition
from ottla.wire.messages import BrokerEndpoint, ListenerAddress
from ottla.wire.names import INTERNAL_TOPICS, NO_EPOCH, NO_LEADER
from ottla.wire.requests import MetadataResponse, PartitionMetadata, TopicMetadata

DEPARTED_S = 2.0
"""For so long the metadata names a broker that left, as one that leads nothing.

librdkafka that hears in one answer of a new leader and of a broker that is gone moves the partition to the new leader first and
away from the old one then, to nobody; it looks again after a second.
"""


class ClusterView:
    """As fresh as the controller's last UpdateMetadata; while this broker is cut off from ZooKeeper, as what its peers know."""

    def __init__(self, cluster_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._departed: dict[int, tuple[BrokerEndpoint, float]] = {}
        self.cluster_id = cluster_id
        self.controller = -1
        self.known = False
        """Whether the controller has ever told this broker everything."""
        self.told_in = NO_EPOCH
        """The life of this broker in which it was last told everything."""
        self.version = (0, 0)
        """How new this is: controller epoch and the controller's count of changes."""
        self.brokers: dict[int, BrokerEndpoint] = {}
        """Where brokers find each other."""
        self.settings: dict[str, dict[str, str]] = {}
        """What brokers were told while they run: by the broker's number, and "" for all of them."""
        self._settings_of = (0, 0)
        self.group_settings: dict[str, dict[str, str]] = {}
        """What single groups set otherwise than the brokers' defaults."""
        self._group_settings_of = (0, 0)
        self.on_group_settings: list[Callable[[], None]] = []
        """All are called when some of them may have changed."""
        self.on_changed: list[Callable[[], None]] = []
        """All are called when something new was learnt."""
        self._failed = FailedListeners()
        self._found_through: dict[str, list[BrokerEndpoint]] = {}
        """Where clients find them, by listener; made when somebody asks."""
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[str, str] = {}
        self._versions: dict[tuple[str, int], int] = {}
        self._pieces: list[UpdateMetadataRequest] = []
        """Of everything, while it is being told: until the last piece has come, what was known before stands."""
        self._taken = (-1, -1)
        """Controller epoch and number of the last piece that completed it."""

    def update(self, request: UpdateMetadataRequest) -> None:
        if request.full:
            if not self._collect(request) or request.more:
                return
            request = self._take_whole()
            self.told_in = request.broker_epoch
        self._take(request)

    def _take(self, request: UpdateMetadataRequest) -> None:
        self.controller = request.controller_id
        self._note_departed({broker.id for broker in request.brokers})
        self.brokers = {broker.id: broker for broker in request.brokers}
        self._found_through.clear()
        if request.full:
            self._topics.clear()
            self._names.clear()
            self._versions.clear()
        for name in request.deleted:
            self._forget(name)
        for topic in request.topics:
            self._learn_topic(topic)
        for state in request.partitions:
            topic_metadata = self._topics.get(state.topic)
            key = (state.topic, state.partition)
            if topic_metadata is None or topic_metadata.topic_id != state.topic_id:
                continue
            if state.version < self._versions.get(key, -1):
                continue  # two messages overtook each other: the later decision stands
            self._versions[key] = state.version
            self._set(topic_metadata, PartitionMetadata(
                state.partition, state.leader, state.leader_epoch, state.replicas, state.isr,
                elr=tuple(state.elr), lost=state.lost,
            ))  # fmt: skip
        if (request.controller_epoch, request.version) >= self._settings_of:
            self._settings_of = request.controller_epoch, request.version
            self.settings = {told.broker: told.config for told in request.settings}
        if request.groups is not None and (request.controller_epoch, request.version) >= self._group_settings_of:
            self._group_settings_of = request.controller_epoch, request.version
            self.group_settings = {told.group: told.config for told in request.groups}
            self._call(self.on_group_settings)
        self.known = self.known or request.full
        if not request.more:
            # An order may be written before another one and told after it: what came since has not become older by that.
            self.version = max(self.version, (request.controller_epoch, request.version))
        self._call(self.on_changed)

    def _call(self, listeners: list[Callable[[], None]]) -> None:
        for changed in listeners:
            try:
                changed()
            except Exception as error:  # of one listener: the others must hear it, and the controller that it was taken
                self._failed.note(changed, error)

    def as_update(self) -> UpdateMetadataRequest:
        """All that is known, as the controller would tell it to a broker that has just come."""
        states = [
            PartitionState(
                topic.name, topic.topic_id, partition.partition, partition.leader, partition.leader_epoch,
                partition.replicas, partition.isr, self._versions.get((topic.name, partition.partition), -1), 0,
                list(partition.elr), partition.lost,
            )
            for topic in self._topics.values()
            for partition in topic.partitions
        ]  # fmt: skip
        topics = [TopicConfig(topic.name, topic.topic_id, topic.config) for topic in self._topics.values()]
        settings = tuple(SettingsTold(broker, config) for broker, config in self.settings.items())
        groups = tuple(GroupSettings(group, config) for group, config in self.group_settings.items())
        controller_epoch, version = self.version
        return UpdateMetadataRequest(
            self.controller, controller_epoch, NO_EPOCH, True, list(self.brokers.values()), topics, states, [], version,
            settings=settings, groups=groups,
        )  # fmt: skip

    def take_from_peer(self, pieces: list[UpdateMetadataRequest]) -> bool:
        """Take what another broker knows, if that is newer; whether it is.

        The controller has not said it to this life of this broker, so ``told_in`` stays what it was.
        """
        if (pieces[-1].controller_epoch, pieces[-1].version) <= self.version:
            return False
        self._take(_joined(pieces))
        return True

    def _collect(self, request: UpdateMetadataRequest) -> bool:
        """Keep a piece; False if it is the last one of those that were taken already, again because its answer was lost.

        Any other may come again too. The first one begins anew: perhaps of the next controller.
        """
        if request.piece > len(self._pieces):
            if (request.controller_epoch, request.piece) == self._taken:
                return False
            raise InvalidRequest(f"piece {request.piece} of the metadata, where {len(self._pieces)} comes next")
        del self._pieces[request.piece :]
        self._pieces.append(request)
        return True

    def _take_whole(self) -> UpdateMetadataRequest:
        pieces, self._pieces = self._pieces, []
        self._taken = (pieces[-1].controller_epoch, pieces[-1].piece)
        return _joined(pieces)

    def endpoint(self, broker_id: int) -> BrokerEndpoint | None:
        return self.brokers.get(broker_id)

    def endpoint_through(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        """Where clients that came in through a listener find a broker."""
        return next((broker for broker in self._brokers_through(listener) if broker.id == broker_id), None)

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topic_names(self) -> list[str]:
        return list(self._topics)

    def replicas_of(self, broker_id: int) -> set[tuple[str, int]]:
        """The partitions that a broker holds, by topic and number."""
        return {
            (topic.name, partition.partition)
            for topic in self._topics.values()
            for partition in topic.partitions
            if broker_id in partition.replicas
        }

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """Leader and leader epoch as far as known."""
        metadata = self._topics.get(topic)
        if metadata is None or not 0 <= partition < len(metadata.partitions):
            return NO_LEADER, NO_EPOCH
        return metadata.partitions[partition].leader, metadata.partitions[partition].leader_epoch

    def state_version_of(self, topic: str, partition: int) -> int:
        """The version of the partition's state as far as known; -1 if it is not."""
        return self._versions.get((topic, partition), -1)

    def topic_id_of(self, topic: str) -> str:
        """The id of the topic that has this name as far as known."""
        metadata = self._topics.get(topic)
        return metadata.topic_id if metadata is not None else ""

    def topic_name_of(self, topic_id: str) -> str | None:
        """The name of the topic that has this id, as far as known."""
        return self._names.get(topic_id)

    def describe(self, names: Iterable[str] | None, listener: str) -> MetadataResponse:
        """The answer to a Metadata request that came through a listener: these topics, or all."""
        topics = list(self._topics.values()) if names is None else [self._describe(name) for name in names]
        brokers = self._brokers_through(listener)
        return MetadataResponse(
            self.cluster_id, self.controller, brokers, topics, self.version, tuple(self._departed_through(listener))
        )

    def _note_departed(self, present: set[int]) -> None:
        now = self._clock()
        self._departed |= {broker: (where, now) for broker, where in self.brokers.items()}
        self._departed = {
            broker: (where, at)
            for broker, (where, at) in self._departed.items()
            if broker not in present and now - at < DEPARTED_S
        }

    def _departed_through(self, listener: str) -> list[BrokerEndpoint]:
        now = self._clock()
        return _through(listener, [where for where, at in self._departed.values() if now - at < DEPARTED_S])

    def _brokers_through(self, listener: str) -> list[BrokerEndpoint]:
        found = self._found_through.get(listener)
        if found is None:
            found = self._found_through[listener] = _through(listener, self.brokers.values())
        return found

    def _describe(self, name: str) -> TopicMetadata:
        known = self._topics.get(name)
        if known is not None:
            return known
        why = f"topic {name!r} does not exist"
        if name in INTERNAL_TOPICS:
            why += f", and is not made on demand: {INTERNAL_TOPICS[name]}"
        return TopicMetadata(name, "", [], {}, UnknownTopicOrPartition.code, why)

    def _learn_topic(self, topic: TopicConfig) -> None:
        known = self._topics.get(topic.topic)
        if known is not None and known.topic_id == topic.topic_id:
            known.config = topic.config
            return
        self._forget(topic.topic)
        self._topics[topic.topic] = TopicMetadata(topic.topic, topic.topic_id, [], topic.config)
        self._names[topic.topic_id] = topic.topic

    def _forget(self, name: str) -> None:
        gone = self._topics.pop(name, None)
        if gone is not None:
            self._names.pop(gone.topic_id, None)
            for partition in gone.partitions:
                self._versions.pop((name, partition.partition), None)

    @staticmethod
    def _set(topic: TopicMetadata, partition: PartitionMetadata) -> None:
        while len(topic.partitions) <= partition.partition:
            missing = len(topic.partitions)
            topic.partitions.append(PartitionMetadata(missing, NO_LEADER, NO_EPOCH, [], []))
        topic.partitions[partition.partition] = partition


def _joined(pieces: list[UpdateMetadataRequest]) -> UpdateMetadataRequest:
    return replace(
        pieces[-1],
        topics=[topic for piece in pieces for topic in piece.topics],
        partitions=[state for piece in pieces for state in piece.partitions],
        deleted=[name for piece in pieces for name in piece.deleted],
    )


def _through(listener: str, brokers: Iterable[BrokerEndpoint]) -> list[BrokerEndpoint]:
    """Brokers at their addresses for this listener; one that has others, but not this one, is left out."""
    return [
        BrokerEndpoint(broker.id, address.host, address.port, broker.rack)
        for broker in brokers
        for address in broker.listeners or [ListenerAddress(listener, broker.host, broker.port)]
        if address.listener == listener
    ]
