"""Which leaders the controller wants, as far as brokers can be counted on. Pure."""

from collections.abc import Collection, Iterable

from ottla.broker.controller.actions import Action, WriteStates
from ottla.broker.controller.cluster import Cluster, Topic
from ottla.broker.controller.election import Leadership, elect
from ottla.wire.names import NO_LEADER, TopicPartition
from ottla.zk.metadata import PartitionStateChange
from ottla.zk.znodes import PartitionStateZnode


class Leaders:
    """Wants leaders in the name of one term of a controller, and remembers which replicas should not be among them."""

    def __init__(self, controller_epoch: int, cluster: Cluster, default_min_insync: int) -> None:
        self._epoch = controller_epoch
        self._cluster = cluster
        self._default_min_insync = default_min_insync
        self.leaving: set[int] = set()
        """Brokers that are about to stop."""
        self._failed: dict[TopicPartition, set[int]] = {}  # replicas whose disk failed in this life of their broker
        self.distrusted: dict[TopicPartition, set[int]] = {}
        """Replicas that came back without a part of their log [I14]."""

    # --- whom to count on ----------------------------------------------------------------------------------------------

    def failed(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """The disk under these replicas of a broker failed."""
        for where in partitions:
            self._failed.setdefault(where, set()).add(broker)

    def mended(self, restarted: Iterable[int]) -> None:
        """A broker that is gone will have recovered its logs when it comes back."""
        for where in list(self._failed):
            self._failed[where] -= set(restarted)
            if not self._failed[where]:
                del self._failed[where]

    def distrust(self, joined: Iterable[int]) -> None:
        """Brokers that came back without a part of their log do not count where they counted before."""
        suspects = {broker for broker in joined if self._cluster.brokers[broker].suspect}
        for where in self._cluster.partitions() if suspects else ():
            state = self._cluster.topics[where.topic].states[where.partition].state
            if affected := suspects & {*state.isr, *state.elr}:
                self.distrusted.setdefault(where, set()).update(affected)

    def trust_again(self, where: TopicPartition, state: PartitionStateZnode, *, elected: bool) -> None:
        """Who lost its tail is trusted once it is counted no more, or once it was elected and its log is the truth."""
        left = self.distrusted.pop(where, set()) & {*state.isr, *state.elr}
        if left and not (elected and state.leader in left):
            self.distrusted[where] = left

    # --- who leads next ------------------------------------------------------------------------------------------------

    def elections(self, among: Iterable[TopicPartition] | None = None) -> list[Action]:
        """New leaders where the old one is gone, where there was none, or where somebody in the ISR cannot be counted on."""
        changes = []
        staying = self._cluster.brokers.keys() - self.leaving
        for where in self.among(among):
            topic = self._cluster.topics[where.topic]
            state = topic.states[where.partition].state
            able = staying - self._failed[where] if where in self._failed else staying
            settled = state.leader in able and all(broker in able for broker in state.isr)
            if settled and where not in self.distrusted:
                continue
            decided = self._decide(topic, where, able)
            if decided != (state.leader, state.isr, state.elr):
                changes.append(self.change(where, decided))
        return [WriteStates(changes)] if changes else []

    def _decide(self, topic: Topic, where: TopicPartition, able: Collection[int]) -> Leadership:
        state = topic.states[where.partition].state
        distrusted = self.distrusted.get(where, set())
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
        asked_to_go = state.leader in self.leaving or state.leader in self._failed.get(where, ())
        if decided.leader == NO_LEADER and asked_to_go and state.leader in state.isr:
            # It leaves, or its disk failed, but nobody else can lead: it stays. What it has can still be read.
            return Leadership(state.leader, state.isr, state.elr)
        return decided

    def not_preferred(self, wanted: Iterable[TopicPartition] | None = None) -> list[TopicPartition]:
        """Those (of all, if none are named) that another replica than the first of their assignment leads, which lives."""
        found = []
        for where in self.among(wanted):
            topic = self._cluster.topics[where.topic]
            preferred = topic.replicas[where.partition][0]
            if topic.states[where.partition].state.leader != preferred and preferred in self._cluster.brokers:
                found.append(where)
        return found

    def preferred(self, wanted: Iterable[TopicPartition] | None = None) -> list[Action]:
        """Give partitions (all, if none are named) back to the first replica of their assignment where it is in sync."""
        changes = []
        for where in self.not_preferred(wanted):
            topic = self._cluster.topics[where.topic]
            state = topic.states[where.partition].state
            preferred = topic.replicas[where.partition][0]
            able = preferred in state.isr and preferred not in self.leaving
            if able and preferred not in self.distrusted.get(where, ()):
                changes.append(self.change(where, Leadership(preferred, state.isr, state.elr)))
        return [WriteStates(changes)] if changes else []

    def among(self, wanted: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        """Those of the wanted partitions, or of all, that have a state and are not being deleted."""
        if wanted is None:
            return self._cluster.partitions()
        return [
            where
            for where in dict.fromkeys(wanted)
            if (topic := self._cluster.topics.get(where.topic)) is not None
            and not topic.deleting
            and where.partition in topic.states
        ]

    def change(self, where: TopicPartition, decided: Leadership) -> PartitionStateChange:
        """What is to be written so that a partition is led as it was decided."""
        known = self._cluster.topics[where.topic].states[where.partition]
        # Invariant [I11]: the leader epoch grows with every change that the controller makes.
        state = PartitionStateZnode(
            decided.leader, known.state.leader_epoch + 1, self._epoch, decided.isr, decided.eligible
        )
        brokers = self._cluster.brokers
        relies_on = {decided.leader: brokers[decided.leader].epoch} if decided.leader in brokers else {}
        return PartitionStateChange(where, state, known.version, relies_on)
