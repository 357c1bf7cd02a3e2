"""What the controller decides. Pure: an event in, actions out; the same events give the same actions.

The loop around it carries actions out (executor.py) and reports results back as further events. Events are the methods
below; every one returns the actions that follow from it, in the order in which they must be done. Who should lead is
decided in leaders.py, how a partition moves in reassignment.py, what may be asked in requests.py.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from ottla.broker.controller.decisions.actions import Action, ReadAgain, RemoveTopic, Tell, WriteStates, WriteTopic
from ottla.broker.controller.decisions.cluster import Broker, Cluster, Topic
from ottla.broker.controller.decisions.election_results import Results, elections_held, elections_needed
from ottla.broker.controller.decisions.leaders import Leaders
from ottla.broker.controller.decisions.orders import Orders
from ottla.broker.controller.decisions.reassignment import Reassignment
from ottla.broker.controller.decisions.requests import Requests
from ottla.broker.controller.decisions.unreachable_leaders import replace_unreachable
from ottla.wire.admin import ElectionType
from ottla.wire.control import LeaderAndIsrRequest
from ottla.wire.errors import OttlaError, StaleBrokerEpoch
from ottla.wire.names import SEGMENT_BYTES_MIN, TopicPartition
from ottla.zk.metadata import LoadedTopic, PartitionStateChange, VersionedState

__all__ = [
    "Action",
    "Broker",
    "ControllerState",
    "ReadAgain",
    "RemoveTopic",
    "Tell",
    "Topic",
    "WriteStates",
    "WriteTopic",
]


class ControllerState:
    """One term of a controller."""

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        default_min_insync: int = 1,
        segment_bytes_min: int = SEGMENT_BYTES_MIN,
    ) -> None:
        self._epoch = controller_epoch
        self._cluster = Cluster()
        self._leaders = Leaders(controller_epoch, self._cluster, default_min_insync)
        self._orders = Orders(controller_id, controller_epoch, self._cluster, self._leaders.must_not_hear)
        self._reassignment = Reassignment(self._cluster, self._leaders, self._orders)
        self.requests = Requests(controller_epoch, self._cluster, self._orders, self._reassignment, segment_bytes_min)

    @property
    def brokers(self) -> dict[int, Broker]:
        return self._cluster.brokers

    @property
    def topics(self) -> dict[str, Topic]:
        return self._cluster.topics

    # --- brokers -------------------------------------------------------------------------------------------------------

    def loaded(
        self,
        brokers: Mapping[int, Broker],
        topics: Iterable[LoadedTopic],
        deleting: Iterable[str],
        settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        groups: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> list[Action]:
        """The beginning of a term: everything was read. ``settings``: what brokers were told while they run; ``groups``:
        the settings of single groups."""
        self._cluster.group_settings = {name: dict(config) for name, config in groups.items()}
        self._cluster.settings = {name: dict(config) for name, config in settings.items()}
        self._cluster.topics = {loaded.name: Topic.of(loaded) for loaded in topics}
        self._cluster.brokers = dict(brokers)
        self._reassignment.resume()
        actions = self._orders.full_metadata(self.brokers)  # before anybody leads anything
        actions += self.deletions_seen(deleting)
        self._leaders.distrust(self.brokers)
        actions += self._leaders.elections()
        actions += self._orders.everything(self.brokers, but=self._leaders.unsettled())
        for name in self.topics:
            actions += self._reassignment.finish(name)  # what the last controller did not get to
        return actions

    def brokers_seen(self, brokers: Mapping[int, Broker]) -> list[Action]:
        """These brokers are registered now. One that has a new epoch failed first, and then came [I10]."""
        bounced = {i for i, broker in brokers.items() if i in self.brokers and self.brokers[i].epoch != broker.epoch}
        actions: list[Action] = []
        if bounced:
            actions += self.brokers_seen({i: broker for i, broker in brokers.items() if i not in bounced})
        joined = brokers.keys() - self.brokers.keys()
        gone = self.brokers.keys() - brokers.keys()
        self._cluster.brokers = dict(brokers)
        self._leaders.shutting_down &= brokers.keys() - joined
        self._leaders.mended(joined | gone)
        if not joined and not gone:
            return actions
        others = self._orders.live_brokers(sorted(self.brokers.keys() - joined))
        # Before the writes that a bounce led to: what was known until then must not arrive after what was decided.
        actions = self._orders.full_metadata(sorted(joined)) + actions + others
        self._leaders.distrust(joined)
        # What the failure of those that bounced led to is decided again once it is written, or read.
        decided = {
            change.partition for action in actions if isinstance(action, WriteStates) for change in action.changes
        }
        actions += self._leaders.elections(but=decided)
        return actions + self._all_orders(sorted(joined))

    def broker_is_behind(self, broker: int) -> list[Action]:
        """Orders to a broker were dropped, for it did not take them: it is told all there is, as if it had just come."""
        if broker not in self.brokers:
            return []
        self._reassignment.told_nothing(broker)
        return self._orders.full_metadata([broker]) + self._all_orders([broker])

    def _all_orders(self, brokers: list[int]) -> list[Action]:
        """What brokers must do now, whatever they were told before."""
        actions = self._orders.everything(brokers, but=self._leaders.unsettled())
        for name, topic in self.topics.items():
            if topic.deleting:
                actions += self._orders.delete_replicas(name, topic, brokers)
            elif brokers and topic.removing:
                actions += self._reassignment.finish(name)  # who was away when its replica had to go
        return actions

    def broker_shuts_down(self, broker: int) -> list[Action]:
        """A broker is about to stop and asks to be relieved first."""
        if broker not in self.brokers:
            return []
        self._leaders.shutting_down.add(broker)
        return self._leaders.elections()

    def replicas_failed(self, broker: int, partitions: Iterable[TopicPartition]) -> list[Action]:
        """The disk under these replicas of a broker failed: they can neither lead nor follow before it is restarted."""
        affected = self._leaders.among(partitions)
        self._leaders.failed(broker, affected)
        return self._leaders.elections(affected)

    def replicas_damaged(self, broker: int, partitions: Iterable[TopicPartition]) -> list[Action]:
        """The logs of these replicas of a broker have a damaged batch: others lead and are in sync, where there are others."""
        affected = self._leaders.among(partitions)
        self._leaders.damaged(broker, affected)
        return self._leaders.elections(affected)

    def leader_unreachable(self, leader: int, cut_off: Collection[int]) -> list[Action]:
        """The controller reaches a broker, and ``cut_off`` brokers do not."""
        return replace_unreachable(self._leaders, self._cluster, leader, cut_off)

    def replicas_work(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker leads or follows these as it was told."""
        self._leaders.works(broker, partitions)

    def leader_and_isr(self, broker: int, partitions: Iterable[TopicPartition]) -> LeaderAndIsrRequest | None:
        """The request that TellReplicas stands for, built from what is known now; None if there is nothing to tell."""
        return self._orders.leader_and_isr(broker, partitions)

    def led_by(self, broker: int) -> list[TopicPartition]:
        return [
            where
            for where in self._cluster.partitions()
            if self.topics[where.topic].states[where.partition].state.leader == broker
        ]

    def held_by(self, brokers: Collection[int]) -> list[TopicPartition]:
        """The partitions that have a replica on one of these."""
        topics = self.topics
        return [
            where
            for where in self._cluster.partitions()
            if not set(topics[where.topic].replicas[where.partition]).isdisjoint(brokers)
        ]

    def stop_replicas_of(self, broker: int) -> list[Action]:
        """What a broker that leaves must let go of, once others lead: it must not be let into an ISR again."""
        partitions = [
            where
            for where in self._cluster.partitions()
            if broker in self.topics[where.topic].replicas[where.partition]
            and broker not in self.topics[where.topic].states[where.partition].state.isr
        ]
        return list[Action](self._orders.stop(broker, partitions, delete=False)) if broker in self.brokers else []

    # --- partitions ----------------------------------------------------------------------------------------------------

    def states_written(
        self, changes: Iterable[PartitionStateChange], results: Mapping[TopicPartition, int | OttlaError]
    ) -> list[Action]:
        """What became of WriteStates: a new version each, or an error."""
        written: list[TopicPartition] = []
        again: dict[str, None] = {}
        for change in changes:
            result = results[change.partition]
            topic = self.topics.get(change.partition.topic)
            if topic is None:
                continue
            if isinstance(result, int):
                topic.states[change.partition.partition] = VersionedState(change.state, result)
                self._leaders.trust_again(change.partition, change.state, elected=True)
                self._reassignment.announced(change.partition)
                written.append(change.partition)
            elif not isinstance(result, StaleBrokerEpoch):  # of that life's end an event of its own will tell
                again[change.partition.topic] = None
        announced = self._orders.announce(written) if written else []
        # A broker that bounced and was the only one in sync: its failure is written now, and it may lead again.
        follows = self._leaders.elections(written)
        for name in dict.fromkeys(where.topic for where in written):
            follows += self._reassignment.finish(name)
        return announced + follows + [ReadAgain(name) for name in again]

    def topic_read(self, loaded: LoadedTopic) -> list[Action]:
        """A topic as it stands in ZooKeeper now: leaders changed their ISR, or we lost a race and look again."""
        topic = self.topics.get(loaded.name)
        if topic is None or topic.topic_id != loaded.topic.topic_id:
            return []
        return self.states_read({TopicPartition(loaded.name, partition): s for partition, s in loaded.states.items()})

    def states_read(self, found: Mapping[TopicPartition, VersionedState]) -> list[Action]:
        """Partitions as they stand in ZooKeeper now."""
        changed = [where for where, state in found.items() if self._is_newer(where, state)]
        ours = {where: None for where in changed if self._is_new_epoch(where, found[where])}
        for where in changed:
            self.topics[where.topic].states[where.partition] = found[where]
            elected = where in ours and found[where].state.controller_epoch == self._epoch
            self._leaders.trust_again(where, found[where].state, elected=elected)
            if where in ours:
                self._reassignment.announced(where)
        # Only a controller begins a leader epoch: a write of ours took effect though its answer was lost, and the replicas
        # must hear of it.
        actions = self._orders.announce(list(ours)) if ours else []
        actions += self._orders.spread([where for where in changed if where not in ours])
        actions += self._leaders.elections(found)
        for name in dict.fromkeys(where.topic for where in found):
            actions += self._reassignment.finish(name)
        return actions

    def _is_newer(self, where: TopicPartition, found: VersionedState) -> bool:
        topic = self.topics.get(where.topic)
        known = topic.states.get(where.partition) if topic is not None else None
        return topic is not None and (known is None or known.version < found.version)

    def _is_new_epoch(self, where: TopicPartition, found: VersionedState) -> bool:
        known = self.topics[where.topic].states.get(where.partition)
        return known is None or known.state.leader_epoch < found.state.leader_epoch

    def not_preferred(self, wanted: Iterable[TopicPartition] | None = None) -> list[TopicPartition]:
        """Those (of all, if none are named) that another replica than the first of their assignment leads, which lives."""
        return self._leaders.not_preferred(wanted)

    def preferred_leaders(self, wanted: Iterable[TopicPartition] | None = None) -> list[Action]:
        """Give partitions (all, if none are named) back to the first replica of their assignment where it is in sync."""
        return self._leaders.preferred(wanted)

    def unclean_leaders(self, wanted: Iterable[TopicPartition] | None = None) -> list[Action]:
        """Let whoever lives lead where nobody does, and lose what only others have: an operator wants it so."""
        return self._leaders.unclean(wanted)

    def elections_needed(self, election: ElectionType, wanted: Iterable[TopicPartition] | None) -> Results:
        """Which of these partitions (or of all) need such an election, and why the others get none."""
        return elections_needed(self._cluster, election, wanted)

    def elections_held(self, election: ElectionType, before: Results) -> Results:
        """What became of them."""
        return elections_held(self._cluster, election, before)

    # --- moving partitions ---------------------------------------------------------------------------------------------

    def topic_written(self, name: str, version: int) -> list[Action]:
        """A topic's assignment stands in ZooKeeper."""
        if name in self.topics:
            self.topics[name].version = version
        return []

    # --- topics --------------------------------------------------------------------------------------------------------

    def topic_created(self, loaded: LoadedTopic) -> list[Action]:
        """A new topic was written, with its first leaders."""
        self.topics[loaded.name] = Topic.of(loaded)
        return self._orders.announce([TopicPartition(loaded.name, partition) for partition in loaded.states])

    def partitions_created(self, loaded: LoadedTopic) -> list[Action]:
        """A topic has more partitions than before."""
        topic = self.topics.get(loaded.name)
        if topic is None or topic.topic_id != loaded.topic.topic_id:
            return []
        new = [TopicPartition(loaded.name, partition) for partition in loaded.states if partition not in topic.states]
        topic.replicas = dict(loaded.topic.partitions)
        topic.states |= {where.partition: loaded.states[where.partition] for where in new}
        return self._orders.announce(new) if new else []

    def config_changed(self, name: str, config: Mapping[str, str]) -> list[Action]:
        """A topic has new settings."""
        topic = self.topics.get(name)
        if topic is None:
            return []
        topic.config = dict(config)
        partitions = [TopicPartition(name, partition) for partition in topic.states]
        return self._orders.spread(partitions) + self._leaders.elections()

    def broker_config_changed(self, name: str, config: Mapping[str, str]) -> list[Action]:
        """A broker, or all of them, have new settings."""
        self._cluster.settings[name] = dict(config)
        return self._orders.live_brokers(sorted(self.brokers)) + self._leaders.elections()

    def group_config_changed(self, name: str, config: Mapping[str, str]) -> list[Action]:
        """A group has new settings, or none any more."""
        self._cluster.group_settings.pop(name, None)
        if config:
            self._cluster.group_settings[name] = dict(config)
        return self._orders.group_settings(sorted(self.brokers))

    def deletions_seen(self, names: Iterable[str]) -> list[Action]:
        """These topics are marked for deletion."""
        actions: list[Action] = []
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                actions.append(RemoveTopic(name))  # a mark without a topic, or one whose creation never ended
            elif not topic.deleting:
                topic.deleting = True
                # Who gave its replica away and has not deleted it yet is told too, but not waited for: it may never come back.
                topic.to_delete_on = {broker for partition in topic.states for broker in topic.replicas[partition]}
                actions += self._orders.delete_replicas(name, topic, self.brokers)
                actions += [] if topic.to_delete_on else [RemoveTopic(name)]
        return actions

    def replicas_deleted(self, broker: int, partitions: Iterable[TopicPartition]) -> list[Action]:
        """A broker has deleted what it held of these."""
        actions: list[Action] = []
        deleted: dict[str, set[int]] = {}
        for where in partitions:
            deleted.setdefault(where.topic, set()).add(where.partition)
        for name, numbers in deleted.items():
            topic = self.topics.get(name)
            if topic is None:
                continue
            if not topic.deleting:
                for number in sorted(numbers):
                    actions += self._reassignment.deleted(TopicPartition(name, number), broker)
            elif numbers >= topic.held_by(broker):  # less than that was meant for a move that came before the deletion
                topic.to_delete_on.discard(broker)
                actions += [] if topic.to_delete_on else [RemoveTopic(name)]
        return actions

    def topic_removed(self, name: str) -> list[Action]:
        """A topic is gone from ZooKeeper."""
        self.topics.pop(name, None)
        self._leaders.forget(name)
        self._reassignment.forget(name)
        return self._orders.live_brokers(self.brokers, deleted=[name])
