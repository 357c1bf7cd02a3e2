"""What the controller decides. Pure: an event in, actions out; the same events give the same actions.

The loop around it (control_loop.py) carries actions out and reports results back as further events. Events are the
methods below; every one returns the actions that follow from it, in the order in which they must be done.
"""

from collections.abc import Collection, Iterable, Mapping

from ottla.broker.controller.actions import Action, ReadAgain, RemoveTopic, Tell, WriteStates, WriteTopic
from ottla.broker.controller.cluster import Broker, Cluster, Topic
from ottla.broker.controller.election import Leadership, elect
from ottla.broker.controller.orders import Orders
from ottla.wire.errors import OttlaError
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.zk.errors import BadVersion, ConnectionLost
from ottla.zk.metadata import LoadedTopic, PartitionStateChange, VersionedState
from ottla.zk.znodes import PartitionStateZnode

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

    def __init__(self, controller_id: int, controller_epoch: int, default_min_insync: int = 1) -> None:
        self._epoch = controller_epoch
        self._default_min_insync = default_min_insync
        self._cluster = Cluster()
        self._orders = Orders(controller_id, controller_epoch, self._cluster)
        self._leaving: set[int] = set()
        self._failed: dict[TopicPartition, set[int]] = {}  # replicas whose disk failed in this life of their broker
        self._distrusted: dict[
            TopicPartition, set[int]
        ] = {}  # replicas that came back without a part of their log [I14]

    @property
    def brokers(self) -> dict[int, Broker]:
        return self._cluster.brokers

    @property
    def topics(self) -> dict[str, Topic]:
        return self._cluster.topics

    # --- brokers -------------------------------------------------------------------------------------------------------

    def loaded(
        self, brokers: Mapping[int, Broker], topics: Iterable[LoadedTopic], deleting: Iterable[str]
    ) -> list[Action]:
        """The beginning of a term: everything was read."""
        self._cluster.topics = {loaded.name: Topic.of(loaded) for loaded in topics}
        self._cluster.brokers = dict(brokers)
        actions = self._orders.full_metadata(self.brokers)  # before anybody leads anything
        actions += self.deletions_seen(deleting)
        self._distrust(self.brokers)
        actions += self._elections()
        actions += self._orders.everything(self.brokers, but=self._distrusted)
        for name in self.topics:
            actions += self._finish_moves(name)  # what the last controller did not get to
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
        self._leaving &= brokers.keys() - joined
        self._mended(joined | gone)
        if not joined and not gone:
            return actions
        # Before the writes that a bounce led to: what was known until then must not arrive after what was decided.
        actions = self._orders.full_metadata(sorted(joined)) + actions
        actions += self._orders.live_brokers(sorted(self.brokers.keys() - joined))
        self._distrust(joined)
        actions += self._elections()
        actions += self._orders.everything(sorted(joined), but=self._distrusted)
        for name, topic in self.topics.items():
            if topic.deleting:
                actions += self._orders.delete_replicas(name, topic, sorted(joined))
        return actions

    def broker_leaves(self, broker: int) -> list[Action]:
        """A broker is about to stop and asks to be relieved first."""
        if broker not in self.brokers:
            return []
        self._leaving.add(broker)
        return self._elections()

    def replicas_failed(self, broker: int, partitions: Iterable[TopicPartition]) -> list[Action]:
        """The disk under these replicas of a broker failed: they can neither lead nor follow before it is restarted."""
        affected = self._among(partitions)
        for where in affected:
            self._failed.setdefault(where, set()).add(broker)
        return self._elections(affected)

    def led_by(self, broker: int) -> list[TopicPartition]:
        return [
            where
            for where in self._cluster.partitions()
            if self.topics[where.topic].states[where.partition].state.leader == broker
        ]

    def relieved(self, broker: int) -> list[Action]:
        """What a broker that leaves must let go of, once others lead: it must not be let into an ISR again."""
        partitions = [
            where
            for where in self._cluster.partitions()
            if broker in self.topics[where.topic].replicas[where.partition]
            and broker not in self.topics[where.topic].states[where.partition].state.isr
        ]
        return self._orders.stop(broker, partitions, delete=False) if broker in self.brokers else []

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
                self._trust_again(change.partition, change.state, elected=True)
                written.append(change.partition)
            elif isinstance(result, BadVersion | ConnectionLost):
                again[change.partition.topic] = None
        announced = self._orders.announce(written) if written else []
        # A broker that bounced and was the only one in sync: its failure is written now, and it may lead again.
        follows = self._elections(written)
        for name in dict.fromkeys(where.topic for where in written):
            follows += self._finish_moves(name)
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
            self._trust_again(where, found[where].state, elected=False)
        # Only a controller begins a leader epoch: a write of ours took effect though its answer was lost, and the replicas
        # must hear of it.
        actions = self._orders.announce(list(ours)) if ours else []
        actions += self._orders.spread([where for where in changed if where not in ours])
        actions += self._elections(found)
        for name in dict.fromkeys(where.topic for where in found):
            actions += self._finish_moves(name)
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
        found = []
        for where in self._among(wanted):
            topic = self.topics[where.topic]
            preferred = topic.replicas[where.partition][0]
            if topic.states[where.partition].state.leader != preferred and preferred in self.brokers:
                found.append(where)
        return found

    def preferred_leaders(self, wanted: Iterable[TopicPartition] | None = None) -> list[Action]:
        """Give partitions (all, if none are named) back to the first replica of their assignment where it is in sync."""
        changes = []
        for where in self.not_preferred(wanted):
            topic = self.topics[where.topic]
            state = topic.states[where.partition].state
            preferred = topic.replicas[where.partition][0]
            able = preferred in state.isr and preferred not in self._leaving
            if able and preferred not in self._distrusted.get(where, ()):
                changes.append(self._change(where, Leadership(preferred, state.isr, state.elr)))
        return [WriteStates(changes)] if changes else []

    # --- moving partitions ---------------------------------------------------------------------------------------------

    def move(self, where: TopicPartition, target: tuple[int, ...]) -> list[Action]:
        """A partition is to have other replicas. First it has the old and the new ones; see ``_finish_moves``."""
        topic = self.topics[where.topic]
        old = topic.target(where.partition)
        topic.replicas[where.partition] = (*target, *(broker for broker in old if broker not in target))
        topic.adding[where.partition] = tuple(broker for broker in target if broker not in old)
        topic.removing[where.partition] = tuple(broker for broker in old if broker not in target)
        state = topic.states[where.partition].state
        # The same leader in a new epoch: so it learns of its new followers, and they of it.
        again = self._change(where, Leadership(state.leader, state.isr, state.elr))
        return [WriteTopic(where.topic, topic.znode(), topic.version), WriteStates([again])]

    def topic_written(self, name: str, version: int) -> list[Action]:
        """A topic's assignment stands in ZooKeeper."""
        if name in self.topics:
            self.topics[name].version = version
        return []

    def _finish_moves(self, name: str) -> list[Action]:
        """Where all new replicas are in sync: they alone remain. ZooKeeper hears of it last, so a crash can be resumed.

        Invariant: a replica is deleted only once it stands in ZooKeeper that it neither leads nor is in sync.
        """
        topic = self.topics.get(name)
        if topic is None or topic.deleting:
            return []
        actions: list[Action] = []
        done = False
        for partition in topic.moving():
            where, target = TopicPartition(name, partition), topic.target(partition)
            state = topic.states[partition].state
            if not set(target) <= set(state.isr):
                continue
            if state.leader not in target or not set(state.isr) <= set(target):
                decided = elect(target, [i for i in state.isr if i in target], self.brokers)
                if state.leader in target and state.leader in self.brokers:
                    decided = decided._replace(leader=state.leader)
                if decided.leader != NO_LEADER:
                    actions.append(WriteStates([self._change(where, decided)]))  # the rest follows when it is written
                continue
            done = True
            gone = topic.removing.pop(partition, ())
            topic.adding.pop(partition, None)
            topic.replicas[partition] = target
            actions += self._orders.announce([where])
            for broker in gone:
                if broker in self.brokers:
                    actions += self._orders.stop(broker, [where], delete=True)
        if done:
            actions.append(WriteTopic(name, topic.znode(), topic.version))
        return actions

    # --- topics --------------------------------------------------------------------------------------------------------

    def topic_created(self, loaded: LoadedTopic) -> list[Action]:
        """A new topic was written, with its first leaders."""
        self.topics[loaded.name] = Topic.of(loaded)
        return self._orders.announce([TopicPartition(loaded.name, partition) for partition in loaded.states])

    def partitions_added(self, loaded: LoadedTopic) -> list[Action]:
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
        return self._orders.spread(partitions) + self._elections()

    def deletions_seen(self, names: Iterable[str]) -> list[Action]:
        """These topics are marked for deletion."""
        actions: list[Action] = []
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                actions.append(RemoveTopic(name))  # a mark without a topic, or one whose creation never ended
            elif not topic.deleting:
                topic.deleting = True
                topic.to_delete_on = {broker for replicas in topic.replicas.values() for broker in replicas}
                actions += self._orders.delete_replicas(name, topic, self.brokers)
        return actions

    def replicas_deleted(self, name: str, broker: int) -> list[Action]:
        """A broker has deleted its replicas of a topic."""
        topic = self.topics.get(name)
        if topic is None or not topic.deleting:
            return []
        topic.to_delete_on.discard(broker)
        return [] if topic.to_delete_on else [RemoveTopic(name)]

    def topic_removed(self, name: str) -> list[Action]:
        """A topic is gone from ZooKeeper."""
        self.topics.pop(name, None)
        return self._orders.live_brokers(self.brokers, deleted=[name])

    # --- decisions -----------------------------------------------------------------------------------------------------

    def _distrust(self, joined: Iterable[int]) -> None:
        """Brokers that came back without a part of their log do not count where they counted before."""
        suspects = {broker for broker in joined if self.brokers[broker].suspect}
        for where in self._cluster.partitions() if suspects else ():
            state = self.topics[where.topic].states[where.partition].state
            if affected := suspects & {*state.isr, *state.elr}:
                self._distrusted.setdefault(where, set()).update(affected)

    def _mended(self, restarted: Iterable[int]) -> None:
        """A broker that is gone will have recovered its logs when it comes back."""
        for where in list(self._failed):
            self._failed[where] -= set(restarted)
            if not self._failed[where]:
                del self._failed[where]

    def _trust_again(self, where: TopicPartition, state: PartitionStateZnode, *, elected: bool) -> None:
        """Who lost its tail is trusted once it is counted no more, or once it was elected and its log is the truth."""
        left = self._distrusted.pop(where, set()) & {*state.isr, *state.elr}
        if left and not (elected and state.leader in left):
            self._distrusted[where] = left

    def _among(self, wanted: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        """Those of the wanted partitions, or of all, that have a state and are not being deleted."""
        if wanted is None:
            return self._cluster.partitions()
        return [
            where
            for where in dict.fromkeys(wanted)
            if (topic := self.topics.get(where.topic)) is not None
            and not topic.deleting
            and where.partition in topic.states
        ]

    def _elections(self, among: Iterable[TopicPartition] | None = None) -> list[Action]:
        """New leaders where the old one is gone, where there was none, or where somebody in the ISR cannot be counted on."""
        changes = []
        staying = self.brokers.keys() - self._leaving
        for where in self._among(among):
            topic = self.topics[where.topic]
            state = topic.states[where.partition].state
            able = staying - self._failed[where] if where in self._failed else staying
            settled = state.leader in able and all(broker in able for broker in state.isr)
            if settled and where not in self._distrusted:
                continue
            decided = self._decide(topic, where, able)
            if decided != (state.leader, state.isr, state.elr):
                changes.append(self._change(where, decided))
        return [WriteStates(changes)] if changes else []

    def _decide(self, topic: Topic, where: TopicPartition, able: Collection[int]) -> Leadership:
        state = topic.states[where.partition].state
        distrusted = self._distrusted.get(where, set())
        heirs = [broker for broker in state.elr if broker not in distrusted]
        isr = tuple(broker for broker in state.isr if broker not in distrusted)
        if not isr and heirs and not any(broker in able for broker in heirs):
            # All that counts is with those that are gone: they are waited for, and who lost its tail counts no more.
            return Leadership(NO_LEADER, (heirs[0],), tuple(heirs[1:]))
        if not isr and not heirs:
            isr = state.isr  # a replica that lost its tail is still better than none
        decided = elect(
            topic.replicas[where.partition],
            isr,
            able,
            eligible=heirs,
            min_insync=topic.min_insync(self._default_min_insync),
            unclean=topic.unclean_election,
        )
        asked_to_go = state.leader in self._leaving or state.leader in self._failed.get(where, ())
        if decided.leader == NO_LEADER and asked_to_go and state.leader in state.isr:
            # It leaves, or its disk failed, but nobody else can lead: it stays. What it has can still be read.
            return Leadership(state.leader, state.isr, state.elr)
        return decided

    def _change(self, where: TopicPartition, decided: Leadership) -> PartitionStateChange:
        known = self.topics[where.topic].states[where.partition]
        # Invariant [I11]: the leader epoch grows with every change that the controller makes.
        state = PartitionStateZnode(
            decided.leader, known.state.leader_epoch + 1, self._epoch, decided.isr, decided.eligible
        )
        relies_on = {decided.leader: self.brokers[decided.leader].epoch} if decided.leader in self.brokers else {}
        return PartitionStateChange(where, state, known.version, relies_on)
