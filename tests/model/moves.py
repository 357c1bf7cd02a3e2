"""A partition that moves, in the model: begun, sent elsewhere on its way, ended, and what was left behind deleted."""

from collections.abc import Iterator

from ottla.wire.names import NO_EPOCH, NO_LEADER
from tests.model.real_code import begun_move, ended_move
from tests.model.states import REPLICAS, Assignment, Bounds, Broker, State, Step, Stop, Zk

TARGETS = ((0, 1), (1, 2), (2,))


class MoveSteps:
    """What an operator and the controller may do next; see protocol.py."""

    bounds: Bounds
    off: frozenset[str]

    def _told(self, s: State, brokers: list[int]) -> State:
        raise NotImplementedError

    def _with(self, s: State, b: int, broker: Broker) -> State:
        raise NotImplementedError

    def _moves(self, s: State) -> Iterator[Step]:
        if s.moves < self.bounds.moves and s.zk.leader != NO_LEADER and s.zk.epoch < self.bounds.epochs:
            yield from self._begin(s)
        if self.bounds.moves:
            yield from self._end(s)
        for stop in s.stops:
            yield from self._delete(s, stop)

    def _begin(self, s: State) -> Iterator[Step]:
        if not s.seen[s.zk.leader] or s.cache != s.zk:
            return  # the second: the write is refused, and the controller reads
        for target in TARGETS:
            assignment = begun_move(s.zk, s.seen, target, forgets_movers="secondMove" in self.off)
            if assignment is None or not all(s.seen[b] for b in target):
                continue
            elected = s.seen[s.zk.leader]
            zk = Zk(s.zk.leader, s.zk.epoch + 1, s.zk.isr, s.zk.version + 1, s.zk.elr, (), assignment, elected)
            after = self._told(s._replace(zk=zk, cache=zk, moves=s.moves + 1), self._holders(s, assignment))
            yield f"the partition is to go to {list(target)}: epoch {zk.epoch}, on {list(assignment.replicas)}", after

    def _end(self, s: State) -> Iterator[Step]:
        ended = ended_move(s.cache, s.seen)
        if ended is None:
            return
        assignment, deletes = ended
        stops = {Stop(b, s.seen[b], s.zk.epoch) for b in deletes}
        after = self._assigned(s, assignment)._replace(stops=s.stops | stops)
        yield f"the move has ended: on {list(assignment.replicas)}, to be deleted on {list(deletes)}", after

    def _delete(self, s: State, stop: Stop) -> Iterator[Step]:
        """Partitions.stop: an order that is older than what the broker was told since changes nothing.

        One controller's orders to a broker arrive in their order: what it said before this one does not come any more.
        """
        broker = s.brokers[stop.to]
        later = frozenset(order for order in s.orders if order.to != stop.to or order.state.epoch > stop.epoch)
        after = s._replace(stops=s.stops - {stop}, orders=later)
        if stop.broker_epoch != broker.broker_epoch or broker.epoch > stop.epoch:
            yield f"broker {stop.to} ignores an old order to delete", after
            return
        emptied = Broker(broker.broker_epoch, NO_LEADER, NO_EPOCH, (), (), 0, None)
        removing = tuple(b for b in s.zk.assignment.removing if b != stop.to)
        if stop.to not in s.zk.assignment.replicas:
            after = self._assigned(after, s.zk.assignment._replace(removing=removing))
        yield f"broker {stop.to} deletes what it has", self._with(after, stop.to, emptied)

    @staticmethod
    def _assigned(s: State, assignment: Assignment) -> State:
        """Only the controller writes the assignment, so its cache knows it."""
        return s._replace(zk=s.zk._replace(assignment=assignment), cache=s.cache._replace(assignment=assignment))

    @staticmethod
    def _holders(s: State, assignment: Assignment) -> list[int]:
        return [b for b in REPLICAS if s.seen[b] and b in assignment.replicas]


def moved_too_far(zk: Zk) -> str:
    """Whether somebody counts who is no replica."""
    outside = {*zk.isr, *([zk.leader] if zk.leader != NO_LEADER else [])} - set(zk.assignment.replicas)
    return f"brokers {sorted(outside)} lead or are in sync, and are no replicas" if outside else ""
