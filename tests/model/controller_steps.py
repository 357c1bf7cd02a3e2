"""The controller's half of the model: it sees brokers come and go, elects, and may be another one at any moment."""

from collections.abc import Iterator
from itertools import combinations

from ottla.wire.names import NO_LEADER
from tests.model.real_code import Decision, counted, decision, handed_over, may_be_told
from tests.model.states import CONTROLLER, REPLICAS, Bounds, Broker, Order, State, Step, Zk, put


class ControllerSteps:
    """What the controller may do next; see protocol.py."""

    bounds: Bounds
    off: frozenset[str]

    def _matters(self, order: Order, broker: Broker) -> bool:
        raise NotImplementedError

    def _advanced(self, s: State, b: int, broker: Broker) -> State:
        raise NotImplementedError

    def _distrusted(self, s: State) -> frozenset[int]:
        """Who the controller knows to have lost its tail."""
        if "suspectTail" in self.off or "noBounce" in self.off:
            return frozenset()
        return frozenset(b for b in s.suspect if s.seen[b])

    def _decision(self, s: State, known: Zk, preferred: int | None = None) -> Decision | None:
        if "oldEpoch" in self.off and known.leader >= 0 and s.seen[known.leader]:
            known = known._replace(elected=s.seen[known.leader])  # as if whoever is there had been elected
        min_insync = self._min_insync(s, CONTROLLER)
        failed = frozenset[int]() if "failedElection" in self.off else s.failed
        return decision(known, s.seen, self._distrusted(s), self._known_lost(s), failed, preferred, min_insync)

    def _known_lost(self, s: State) -> frozenset[int]:
        """Who the controller knows to have come back with an empty disk."""
        if "emptyDisk" in self.off:
            return frozenset()
        return frozenset(b for b in s.lost if s.seen[b])

    def _min_insync(self, s: State, who: int) -> int:
        return 1 if who in s.lowered else self.bounds.min_insync

    def _lower_min_insync(self, s: State) -> Iterator[Step]:
        """Somebody hears of the lower min.insync.replicas; a leader commits at once what it now may."""
        if not self.bounds.lowered:
            return
        for who in (*REPLICAS, CONTROLLER):
            if who not in s.lowered:
                after = s._replace(lowered=s.lowered | {who})
                if who != CONTROLLER:
                    after = self._advanced(after, who, after.brokers[who])
                yield f"min.insync.replicas is 1 now, {who} hears", after

    def _controller_sees(self, s: State, b: int) -> Iterator[Step]:
        registered = s.registered[b]
        if s.seen[b] == registered.epoch:
            return
        if s.seen[b] and not ("noBounce" in self.off and registered.live):
            yield f"the controller sees that broker {b} is gone", s._replace(seen=put(s.seen, b, 0))
            return
        if not registered.live:
            return
        if not s.seen[b] and self._decision(s, s.cache) is not None:
            return  # first the failure is dealt with, then the arrival
        seen = put(s.seen, b, registered.epoch)
        yield f"the controller sees that broker {b} is there", self._told_again(s._replace(seen=seen), [b])

    def stuck(self, s: State) -> str:
        """A partition whose leader cannot lead, though another could, and that the controller leaves as it is."""
        able = {b for b in s.zk.isr if s.seen[b]} - s.failed - s.suspect - s.lost
        if s.zk.leader in s.failed and able and self._decision(s, s.zk) is None:
            return f"broker {s.zk.leader} cannot lead, brokers {sorted(able)} could, and nobody sees to it"
        return ""

    def _told(self, s: State, brokers: list[int]) -> State:
        state = s.cache._replace(assignment=counted(s.cache, s.seen))
        orders = {Order(b, s.seen[b], state) for b in brokers if self._may_be_told(s, b)}
        kept = {order for order in orders if "noKip380" in self.off or self._matters(order, s.brokers[order.to])}
        return s._replace(orders=s.orders | kept)

    def _may_be_told(self, s: State, b: int) -> bool:
        if "oldEpoch" in self.off:
            return b in s.cache.assignment.replicas
        return may_be_told(s.cache, s.seen, b)

    def _told_again(self, s: State, brokers: list[int]) -> State:
        """What arrives is told what stands, unless a replica without its tail is still counted: that is written first."""
        unwritten = self._known_lost(s) - set(s.cache.lost)
        return s if self._distrusted(s) or unwritten else self._told(s, brokers)

    def _elections(self, s: State) -> Iterator[Step]:
        known = s.cache
        if known != s.zk:
            yield "the controller reads the state", s._replace(cache=s.zk)
        if s.zk.epoch >= self.bounds.epochs or (known.version != s.zk.version and "blindElect" not in self.off):
            return  # the second: the write is refused, and the controller reads
        # Where somebody failed; and a move to a preferred leader, or away from one that shuts down.
        decided = [self._decision(s, known), *(self._decision(s, known, b) for b in s.zk.assignment.replicas)]
        decided += self._hand_overs(s, known)
        for change in dict.fromkeys(change for change in decided if change is not None):
            if any(s.registered[b].epoch != epoch for b, epoch in change.lives):
                continue  # the multi checks that the new leader is still in the life that was seen
            zk = Zk(change.leader, s.zk.epoch + 1, change.isr, s.zk.version + 1, change.elr, change.lost)
            zk = zk._replace(assignment=s.zk.assignment, elected=change.elected)
            zk = zk._replace(assignment=counted(zk, s.seen))
            live = [b for b in REPLICAS if s.seen[b] and b in zk.assignment.replicas]
            after = self._told(
                s._replace(zk=zk, cache=zk, suspect=s.suspect & zk.holders, lost=s.lost & zk.holders), live
            )
            yield f"the controller elects {zk.leader} epoch {zk.epoch} isr {list(zk.isr)} version {zk.version}", after

    def _hand_overs(self, s: State, known: Zk) -> Iterator[Decision | None]:
        """The leader lives and goes on, and some brokers say that they do not reach it."""
        min_insync = self._min_insync(s, CONTROLLER)
        if known.leader == NO_LEADER or not s.seen[known.leader] or min_insync < 2:
            return  # the last: it has enough as long as it lives
        if "oldEpoch" in self.off:
            known = known._replace(elected=s.seen[known.leader])
        followers = [b for b in REPLICAS if b != known.leader and s.seen[b]]
        for count in range(1, len(followers) + 1):
            for cut_off in map(frozenset, combinations(followers, count)):
                judged = known._replace(isr=(known.leader, *sorted(cut_off))) if "cutOffElect" in self.off else known
                yield handed_over(judged, s.seen, self._distrusted(s), cut_off, min_insync)

    def _new_controller(self, s: State) -> Iterator[Step]:
        """Another controller, or one that lost the race to note a failure: it knows only who is there now.

        The latter goes by its cache.
        """
        seen = tuple(registered.epoch if registered.live else 0 for registered in s.registered)
        if seen != s.seen and "noBounce" not in self.off:
            live = [b for b in REPLICAS if seen[b]]
            yield "a new controller reads everything", self._told_again(s._replace(seen=seen, cache=s.zk), live)
            if s.cache != s.zk:
                yield "the controller sees who is there now", self._told_again(s._replace(seen=seen), live)
