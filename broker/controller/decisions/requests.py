"""What is asked of the controller: refused with an error, or turned into actions. Pure.

Nothing is changed before an action has been carried out, except for a move, whose first step is written at once.
"""

from collections.abc import Mapping, Sequence

from ottla.broker.controller.decisions.actions import (
    Action,
    CreatePartitions,
    CreateTopic,
    MarkForDeletion,
    WriteBrokerConfig,
    WriteConfig,
    WriteGroupConfig,
)
from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.broker.controller.decisions.configs import (
    changed_broker_config,
    changed_config,
    changed_group_config,
    check_segment_bytes,
)
from ottla.broker.controller.decisions.orders import Orders
from ottla.broker.controller.decisions.placement import Racks, check_assignment, place
from ottla.broker.controller.decisions.reassignment import Reassignment
from ottla.broker.dynamic_config import ALL_BROKERS, is_broker_name, plain_broker_config
from ottla.broker.group_configs import GROUPS_WITH_SETTINGS_MAX, check_group_times, plain_group_config
from ottla.broker.storage.topic_configs import plain_topic_config
from ottla.wire.admin import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigAlteration,
    ConfigReplacement,
    NewPartitions,
    NewTopic,
    OngoingReassignment,
)
from ottla.wire.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    StaleBrokerEpoch,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.wire.names import PARTITIONS_MAX, TopicPartition, check_topic_name
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode
from ottla.zk.znodes.uuids import uuid_from_text, uuid_to_text


class Requests:
    """Requests of one term. Each method gives what is to be done, or raises why not."""

    def __init__(
        self,
        controller_epoch: int,
        cluster: Cluster,
        orders: Orders,
        reassignment: Reassignment,
        segment_bytes_min: int,
    ) -> None:
        self._epoch = controller_epoch
        self._cluster = cluster
        self._orders = orders
        self._reassignment = reassignment
        self._segment_bytes_min = segment_bytes_min

    # --- topics ----------------------------------------------------------------------------------------------------------

    def create_topic(self, new: NewTopic, topic_id: str) -> list[Action]:
        """``topic_id`` is what the topic shall be known by, or "" if it is only asked whether it could be created.

        Who asks again with the same id means the same topic.
        """
        check_topic_name(new.name)
        known = self._cluster.topics.get(new.name)
        if known is not None and topic_id and known.topic_id == topic_id and not known.deleting:
            # Its answer was lost: brokers that have heard of it will say so.
            return self._orders.spread([TopicPartition(new.name, partition) for partition in known.states])
        if known is not None:
            raise TopicAlreadyExists(f"topic {new.name!r} exists", topic=new.name)
        if new.topic_id:
            self._check_topic_id(new.topic_id)
        config = plain_topic_config(new.config)
        check_segment_bytes({}, config, self._segment_bytes_min)
        replicas = dict(enumerate(map(tuple, self._assignment(new))))
        return [CreateTopic(new.name, TopicZnode(replicas, topic_id), self._first_states(replicas), config)]

    def delete_topic(self, name: str, topic_id: str = "") -> list[Action]:
        """Who names the topic's id may ask again: another topic of that name stays, and one that goes already is left alone."""
        check_topic_name(name)
        topic = self._cluster.topics.get(name)
        if topic_id and topic is not None:
            if topic.topic_id != topic_id:
                raise UnknownTopicOrPartition(f"topic {name!r} of id {topic_id[:40]} does not exist", topic=name)
            if topic.deleting:
                return []
        self.topic(name)
        return [MarkForDeletion(name)]

    def name_of(self, topic_id: str) -> str:
        """The topic that has this id."""
        for name, topic in self._cluster.topics.items():
            if topic.topic_id == topic_id:
                return name
        raise UnknownTopicId(f"topic id {topic_id[:40]} belongs to no topic")

    def create_partitions(self, new: NewPartitions) -> list[Action]:
        """Let a topic have ``count`` partitions, more than it has."""
        topic = self.topic(new.name)
        had, factor = len(topic.replicas), len(topic.replicas[0])
        if not had < new.count <= PARTITIONS_MAX:
            raise InvalidPartitions(
                f"topic {new.name!r} has {had} partitions; give a larger number, at most {PARTITIONS_MAX}"
            )
        if new.assignment is None:
            placed = place(new.count - had, factor, self._racks(), start=topic.replicas[0][0] + had)
        else:
            placed = check_assignment(new.assignment, self._racks())
            if len(placed) != new.count - had or len(placed[0]) != factor:
                raise InvalidReplicaAssignment(
                    f"topic {new.name!r} has {had} partitions of {factor} replicas: name those of {new.count - had} more"
                )
        fresh = {had + i: tuple(replicas) for i, replicas in enumerate(placed)}
        larger = TopicZnode({**topic.replicas, **fresh}, topic.znode().topic_id, topic.adding, topic.removing)
        return [CreatePartitions(new.name, larger, self._first_states(fresh))]

    # --- settings --------------------------------------------------------------------------------------------------------

    def replace_config(self, resource: ConfigReplacement) -> list[Action]:
        """Replace all settings."""
        if resource.resource_type == GROUP_RESOURCE:
            return self._write_group(resource.name, plain_group_config(resource.config))
        if resource.resource_type == BROKER_RESOURCE:
            had, config = self._settings_of(resource.name), plain_broker_config(resource.config, resource.name)
            return [WriteBrokerConfig(resource.name, self._checked(had, config))]
        had, config = self._configured(resource).config, plain_topic_config(resource.config)
        return [WriteConfig(resource.name, self._checked(had, config))]

    def alter_config(self, resource: ConfigAlteration) -> list[Action]:
        """Change some settings."""
        if resource.resource_type == GROUP_RESOURCE:
            of_group = self._cluster.group_settings.get(resource.name, {})
            return self._write_group(resource.name, changed_group_config(of_group, resource.changes))
        if resource.resource_type == BROKER_RESOURCE:
            had = self._settings_of(resource.name)
            config = changed_broker_config(had, resource.changes, resource.name)
            return [WriteBrokerConfig(resource.name, self._checked(had, config))]
        had = self._configured(resource).config
        return [WriteConfig(resource.name, self._checked(had, changed_config(had, resource.changes)))]

    def _write_group(self, name: str, config: dict[str, str]) -> list[Action]:
        """Whether the group exists does not matter: settings may come before its first member."""
        check_group_times(config)
        known = self._cluster.group_settings
        if config and name not in known and len(known) >= GROUPS_WITH_SETTINGS_MAX:
            raise InvalidRequest(
                f"{len(known)} groups have settings of their own; allowed are {GROUPS_WITH_SETTINGS_MAX}"
            )
        return [WriteGroupConfig(name, config)]

    def _checked(self, before: Mapping[str, str], after: dict[str, str]) -> dict[str, str]:
        check_segment_bytes(before, after, self._segment_bytes_min)
        return after

    def _configured(self, resource: ConfigReplacement | ConfigAlteration) -> Topic:
        if resource.resource_type != TOPIC_RESOURCE:
            raise InvalidRequest(
                f"settings of resources of type {resource.resource_type} cannot be changed:"
                f" only those of topics ({TOPIC_RESOURCE}), brokers ({BROKER_RESOURCE}) and groups ({GROUP_RESOURCE})"
            )
        return self.topic(resource.name)

    def _settings_of(self, name: str) -> Mapping[str, str]:
        """What a broker, or all of them, were told while they run. One that is away may still be told less, or more."""
        known = self._cluster.settings.get(name)
        if known is None and name != ALL_BROKERS and not (is_broker_name(name) and int(name) in self._cluster.brokers):
            raise InvalidRequest(
                f"there is no broker {name[:40]!r}; name one of {sorted(self._cluster.brokers)}, or none for all of them"
            )
        return known or {}

    # --- partitions ------------------------------------------------------------------------------------------------------

    def reassign(self, where: TopicPartition, replicas: Sequence[int] | None) -> list[Action]:
        """Begin to move a partition to other brokers; None calls a move off.

        Called off, a partition goes back to all who held it when its last move began.
        """
        topic = self._of(where)
        if replicas is None:
            if not topic.is_moving(where.partition):
                raise NoReassignmentInProgress(
                    f"{where} is not being moved", topic=where.topic, partition=where.partition
                )
            came = topic.adding.get(where.partition, ())
            replicas = [broker for broker in topic.replicas[where.partition] if broker not in came]
        else:
            check_assignment([replicas], self._racks())
        if topic.states[where.partition].state.leader < 0:
            raise InvalidReplicaAssignment(f"{where} has no leader to copy from")
        return self._reassignment.begin(where, tuple(replicas))

    def reassignments(self, wanted: Sequence[TopicPartition] | None) -> list[OngoingReassignment]:
        """Which partitions are being moved; those that are not there are not."""
        found = []
        named = set(wanted) if wanted is not None else None
        for name, topic in sorted(self._cluster.topics.items()):
            for number in topic.moving():
                if topic.is_moving(number) and (named is None or TopicPartition(name, number) in named):
                    adding, removing = topic.adding.get(number, ()), topic.removing.get(number, ())
                    found.append(
                        OngoingReassignment(name, number, list(topic.replicas[number]), list(adding), list(removing))
                    )
        return found

    # --- checks ----------------------------------------------------------------------------------------------------------

    def check_life(self, broker_id: int, broker_epoch: int) -> None:
        """Whether it is the present life of a broker that asks."""
        known = self._cluster.brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch:
            raise StaleBrokerEpoch(f"broker {broker_id} of epoch {broker_epoch} is not live")

    def topic(self, name: str) -> Topic:
        """A topic that is there, and not about to go."""
        check_topic_name(name)
        topic = self._cluster.topics.get(name)
        if topic is None or topic.deleting:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist", topic=name)
        return topic

    def _of(self, where: TopicPartition) -> Topic:
        topic = self.topic(where.topic)
        if where.partition not in topic.states:
            raise UnknownTopicOrPartition(f"{where} does not exist", topic=where.topic, partition=where.partition)
        return topic

    # --- inside ----------------------------------------------------------------------------------------------------------

    def _check_topic_id(self, topic_id: str) -> None:
        """What a client chose must be random, so that it can never be another topic's."""
        try:
            chosen = uuid_from_text(topic_id)
        except ValueError as error:
            raise InvalidRequest(f"topic id: {error}") from None
        if chosen.version != 4 or uuid_to_text(chosen) != topic_id:
            raise InvalidRequest(f"topic id {topic_id[:40]!r} is not a random uuid")
        if any(topic.topic_id == topic_id for topic in self._cluster.topics.values()):
            raise InvalidRequest(f"topic id {topic_id} belongs to another topic")

    def _assignment(self, new: NewTopic) -> list[list[int]]:
        if new.assignment is not None:
            return check_assignment(new.assignment, self._racks())
        # The next topic begins where the last one's partitions ended, so that many small topics spread evenly.
        start = sum(len(topic.replicas) for topic in self._cluster.topics.values())
        return place(new.partitions, new.replication_factor, self._racks(), start)

    def _first_states(self, partitions: Mapping[int, tuple[int, ...]]) -> dict[int, PartitionStateZnode]:
        """The first replica leads, and all are in sync: there is nothing yet that they could lack."""
        return {
            number: PartitionStateZnode(
                replicas[0], 0, self._epoch, replicas, leader_broker_epoch=self._cluster.broker_epoch(replicas[0])
            )
            for number, replicas in partitions.items()
        }

    def _racks(self) -> Racks:
        return {i: broker.endpoint.rack for i, broker in self._cluster.brokers.items()}
