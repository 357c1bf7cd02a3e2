"""Which leaders the controller wants, as far as brokers can be counted on. Pure."""

from collections.abc import Collection, Iterable

from ottla.broker.controller.decisions.actions import Action, WriteStates
from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.broker.controller.decisions.election import Leadership, elect, first
from ottla.wire.names import NO_EPOCH, NO_LEADER, TopicPartition
from ottla.zk.metadata import PartitionStateChange
from ottla.zk.znodes.brokers import DataState
from ottla.zk.znodes.topics import PartitionStateZnode


class Leaders:
    """Wants leaders in the name of one term of a controller, and remembers which replicas should not be among them."""

    def __init__(self, controller_epoch: int, cluster: Cluster, default_min_insync: int) -> None:
        self._epoch = controller_epoch
        self._cluster = cluster
        self._default_min_insync = default_min_insync
        self.shutting_down: set[int] = set()
        """Brokers that are about to stop."""
        self._failed: dict[TopicPartition, set[int]] = {}  # replicas whose disk failed in this life of their broker
        self._damaged: dict[TopicPartition, set[int]] = {}
        """Replicas whose log has a damaged batch: they do not count as long as another one in sync can lead."""
        self.distrusted: dict[TopicPartition, set[int]] = {}
        """Replicas that came back without the end of their log [I14]."""
        self.lost: dict[TopicPartition, set[int]] = {}
        """Replicas that came back without their log, or with an old one [I14]."""

    # --- whom to count on ----------------------------------------------------------------------------------------------

    def failed(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """The disk under these replicas of a broker failed."""
        for where in partitions:
            self._failed.setdefault(where, set()).add(broker)

    def damaged(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker found a damaged batch in its own log of these. Where it does not count, it copies the log anew anyway."""
        for where in partitions:
            state = self._cluster.topics[where.topic].states[where.partition].state
            if broker in (*state.isr, *state.elr):
                self._damaged.setdefault(where, set()).add(broker)

    def works(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker leads or follows these as it was told: if it could not before, that has passed."""
        for where in partitions:
            if where in self._failed:
                self._failed[where].discard(broker)
                if not self._failed[where]:
                    del self._failed[where]

    def mended(self, restarted: Iterable[int]) -> None:
        """A broker that is gone will have recovered its logs when it comes back, or say again what is damaged."""
        for broken in (self._failed, self._damaged):
            for where in list(broken):
                broken[where] -= set(restarted)
                if not broken[where]:
                    del broken[where]

    def distrust(self, joined: Iterable[int]) -> None:
        """Brokers that came back without some of their records do not count where they counted before.

        Who came back with what was missing is lost no more: the disk that was away is there again. (One that took its place
        has taken no records as long as anybody waited for it.)
        """
        brokers = self._cluster.brokers
        unreported: dict[DataState, set[int]] = {data: set() for data in DataState}
        for broker in joined:
            if not brokers[broker].reported:
                unreported[brokers[broker].data].add(broker)
        suspects = unreported[DataState.TAIL_SUSPECT]
        found_again = unreported[DataState.WHOLE] | suspects
        lost_in: dict[TopicPartition, set[int]] = {}
        for broker in found_again:
            for where in brokers[broker].lost_partitions:
                lost_in.setdefault(where, set()).add(broker)
        for where in self._cluster.partitions():
            state = self._cluster.topics[where.topic].states[where.partition].state
            counted = {*state.isr, *state.elr}
            lost_here = unreported[DataState.LOST] | lost_in.get(where, set())
            if affected := counted & suspects:
                self.distrusted.setdefault(where, set()).update(affected)
            gone = (self.lost.get(where, set()) | set(state.lost)) - (found_again - lost_here) | counted & lost_here
            if gone:
                self.lost[where] = gone
            else:
                self.lost.pop(where, None)

    def forget(self, topic: str) -> None:
        """A topic is gone, and all that was thought of its replicas with it."""
        for thoughts in (self._failed, self._damaged, self.distrusted, self.lost):
            for where in [where for where in thoughts if where.topic == topic]:
                del thoughts[where]

    def unsettled(self) -> set[TopicPartition]:
        """Where a replica that lacks records still counts: whoever is told so might lead without them."""
        return {where for where in {*self.distrusted, *self.lost} if self.is_unsettled(where)}

    def must_not_hear(self, where: TopicPartition, broker: int) -> bool:
        """Whether a broker lacks records of a partition and that is not written yet: who is told so takes it for done.

        And whether it would lead in the epoch of an earlier incarnation, which may have changed the ISR unheard [I10].
        """
        if self._cluster.topics[where.topic].states[where.partition].state.leader == broker and self._was_restarted(
            where
        ):
            return True
        doubted = broker in self.distrusted.get(where, ()) or broker in self.lost.get(where, ())
        return doubted and self.is_unsettled(where)

    def is_unsettled(self, where: TopicPartition) -> bool:
        """Whether an epoch must begin: the leader was restarted, or a replica that lacks records still counts.

        Where it is written that nobody leads because of lost records, all is said.
        """
        if where in self.distrusted or self._was_restarted(where):
            return True
        written = set(self._cluster.topics[where.topic].states[where.partition].state.lost)
        return self.lost.get(where, written) != written

    def _was_restarted(self, where: TopicPartition) -> bool:
        """Whether the leader lives, but is not known to be the incarnation that was elected: it must not go on [I10]."""
        state = self._cluster.topics[where.topic].states[where.partition].state
        present = self._cluster.broker_epoch(state.leader)
        return present not in (NO_EPOCH, state.leader_broker_epoch)

    def trust_again(self, where: TopicPartition, state: PartitionStateZnode, *, elected: bool) -> None:
        """Who lacks records is trusted once it is counted no more, or once it was elected and its log is the truth."""
        for doubts in (self.distrusted, self.lost):
            left = doubts.pop(where, set()) & {*state.isr, *state.elr}
            if left and not (elected and state.leader in left):
                doubts[where] = left
        if damaged := self._damaged.pop(where, set()) & {*state.isr, *state.elr}:
            self._damaged[where] = damaged

    # --- who leads next ------------------------------------------------------------------------------------------------

    def elections(
        self, among: Iterable[TopicPartition] | None = None, but: Collection[TopicPartition] = ()
    ) -> list[Action]:
        """New leaders where the old one is gone, where there was none, or where somebody in the ISR cannot be counted on."""
        changes = []
        staying = self._cluster.brokers.keys() - self.shutting_down
        for where in self.among(among):
            if where in but:
                continue
            topic = self._cluster.topics[where.topic]
            state = topic.states[where.partition].state
            able = self.able(where) if where in self._failed else staying
            settled = state.leader in able and all(broker in able for broker in state.isr)
            doubted = where in self.distrusted or where in self.lost or where in self._damaged
            if settled and not doubted and not self._was_restarted(where):
                continue
            decided = self._decide(topic, where, able)
            # Whoever was restarted or is not trusted and leads all the same does so in a new epoch: then it is known that
            # this was decided, and by which ISR.
            again = decided.leader != NO_LEADER and self.is_unsettled(where)
            if again or decided != (state.leader, state.isr, state.elr, state.lost):
                changes.append(self.change(where, decided))
        return [WriteStates(changes)] if changes else []

    def _decide(self, topic: Topic, where: TopicPartition, able: Collection[int]) -> Leadership:
        state = topic.states[where.partition].state
        if state.leader_broker_epoch != NO_EPOCH and self._was_restarted(where):
            # It failed first, and then came [I10]: another member of the ISR leads, or an eligible replica. If there is none,
            # it may lead again, rather than a replica that is not in sync.
            without = self._decide_among(topic, where, set(able) - {state.leader}, unclean=False)
            if without.leader != NO_LEADER:
                return without
        return self._decide_among(topic, where, able, unclean=topic.unclean_election)

    def _decide_among(self, topic: Topic, where: TopicPartition, able: Collection[int], *, unclean: bool) -> Leadership:
        state = topic.states[where.partition].state
        lost = self.lost.get(where, set())
        doubted = self._doubted(where, able)
        elr, isr = _but(state.elr, doubted), _but(state.isr, doubted)
        if not isr and elr and not any(broker in able for broker in elr):
            # All that counts is with those that are gone: they are waited for, and who lacks records counts no more.
            return Leadership(NO_LEADER, elr[:1], elr[1:])
        if not isr and not elr:
            # A replica that lost its tail is still better than none; one that lost its log would have all others lose theirs.
            # It leads alone: whoever is in sync does not truncate committed records for it.
            isr = _but(state.isr, lost) or _but(state.elr, lost)
            leader = first(topic.replicas[where.partition], isr, able)
            if leader != NO_LEADER:
                return Leadership(leader, (leader,))
        decided = elect(
            _best_first(topic.replicas[where.partition], lost),
            isr,
            able,
            elr=elr,
            min_insync=self.min_insync(topic),
            current=state.leader,
            unclean=unclean,
        )
        if not decided.isr:
            return Leadership(NO_LEADER, state.isr, state.elr, tuple(sorted(lost & {*state.isr, *state.elr})))
        asked_to_go = state.leader in self.shutting_down or state.leader in self._failed.get(where, ())
        if decided.leader == NO_LEADER and asked_to_go and state.leader in isr:
            # It leaves, or its disk failed, but nobody else can lead: it stays. What it has can still be read.
            return Leadership(state.leader, isr, elr)
        return decided

    def _doubted(self, where: TopicPartition, able: Collection[int]) -> set[int]:
        """Replicas that lack records. One with a damaged batch is among them only if another one in sync can lead: what it has
        besides can still be read."""
        doubted = self.lost.get(where, set()) | self.distrusted.get(where, set())
        damaged = self._damaged.get(where, set())
        isr = self._cluster.topics[where.topic].states[where.partition].state.isr
        others = set(isr) & set(able) - doubted - damaged
        return doubted | damaged if others else doubted

    def unclean(self, wanted: Iterable[TopicPartition] | None = None) -> list[Action]:
        """Where nobody leads (of all partitions, if none are named): take whoever lives as he is, at an operator's word."""
        changes = []
        for where in self.among(wanted):
            topic = self._cluster.topics[where.topic]
            if topic.states[where.partition].state.leader != NO_LEADER:
                continue
            lost = self.lost.get(where, set())
            decided = elect(_best_first(topic.replicas[where.partition], lost), (), self.able(where), unclean=True)
            if decided.leader != NO_LEADER:
                changes.append(self.change(where, decided))
        return [WriteStates(changes)] if changes else []

    def min_insync(self, topic: Topic) -> int:
        """The min.insync.replicas that the leaders of a topic go by."""
        return topic.min_insync(self._cluster.min_insync(self._default_min_insync))

    def able(self, where: TopicPartition) -> set[int]:
        """The brokers that can be counted on to lead a partition, as far as their disks and lives are concerned."""
        return self._cluster.brokers.keys() - self.shutting_down - self._failed.get(where, set())

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
            able = preferred in state.isr and preferred not in self.shutting_down
            if able and preferred not in self._doubted(where, self.able(where)):
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
            decided.leader,
            known.state.leader_epoch + 1,
            self._epoch,
            decided.isr,
            decided.elr,
            lost=decided.lost,
            leader_broker_epoch=self._cluster.broker_epoch(decided.leader),
        )
        brokers = self._cluster.brokers
        relies_on = {decided.leader: brokers[decided.leader].epoch} if decided.leader in brokers else {}
        return PartitionStateChange(where, state, known.version, relies_on)


def _but(replicas: Iterable[int], out: Collection[int]) -> tuple[int, ...]:
    return tuple(broker for broker in replicas if broker not in out)


def _best_first(replicas: Iterable[int], lost: Collection[int]) -> list[int]:
    """In the order of the assignment, but those that lost their log last, should anybody be elected at all."""
    return sorted(replicas, key=lambda broker: broker in lost)
