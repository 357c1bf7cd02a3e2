"""The replication protocol as a model: three replicas of one partition, ZooKeeper, and a controller that may err.

A state is a tuple of tuples; ``steps`` gives all that may happen next. Everything that the network may do is in it: an
order of the controller arrives late or never, a fetch arrives when its sender has long moved on, a change of the ISR takes
effect without the leader learning of it. The controller fences whom it likes and elects when it likes; brokers restart at
any moment, with or without the end of their log. The controller decides and tells by what it has in its cache, which is as
old as it likes where a leader changed the ISR. Where the real code is pure, the model calls it: LeaderState,
ControllerState, EpochCache. What it takes for granted: a request to ZooKeeper that is lost stays lost (a sync comes before
the read that settles it), and a broker that loses its tail is not the last in-sync replica that still has everything. One
that loses its whole log may be: then nobody leads.

Every rule that makes the protocol safe can be switched off by name (rules.py); search.py shows what happens then.
"""

from collections.abc import Iterator

from ottla.wire.names import NO_EPOCH, NO_LEADER
from tests.model.controller_steps import ControllerSteps
from tests.model.moves import MoveSteps
from tests.model.real_code import (
    after_fetch,
    cache_assign,
    counted,
    end_of_epoch,
    leader_state,
    shortened,
    with_change,
)
from tests.model.rules import RULES
from tests.model.states import (
    NOTHING,
    REPLICAS,
    Assignment,
    Bounds,
    Broker,
    Leading,
    Order,
    Pending,
    Registration,
    StaleFetch,
    State,
    Step,
    Violation,
    Zk,
    put,
    settled,
)


class Protocol(ControllerSteps, MoveSteps):
    """All steps from a state, with some rules off."""

    def __init__(self, bounds: Bounds, off: frozenset[str] = frozenset()) -> None:
        assert off <= RULES.keys(), off
        self.bounds = bounds
        self.off = off

    def first(self) -> State:
        """Broker 0 leads in epoch 1, all are in sync, nothing is written."""
        first = self.bounds.replicas
        zk = Zk(0, 1, self.bounds.isr, 0, self.bounds.elr, (), Assignment(first, (), (), first))
        leading = Leading(0, zk.isr, zk.elr, 0, None, ((-1, -1),) * len(REPLICAS), first)
        brokers = tuple(Broker(1, 0, 1, (), (), 0, None) for _ in REPLICAS)
        brokers = (brokers[0]._replace(leading=leading, cache=((1, 0),)), *brokers[1:])
        registered = (Registration(1, True),) * 3
        return State(zk, registered, (1, 1, 1), zk, brokers, NOTHING, NOTHING, NOTHING, (), NOTHING, 0, 0, 0, 0)

    def steps(self, s: State) -> Iterator[Step]:
        for b in REPLICAS:
            yield from self._append(s, b)
            yield from self._fetch(s, b)
            yield from self._change_isr(s, b)
            yield from self._lives(s, b)
            yield from self._controller_sees(s, b)
        for fetch in s.fetches:
            yield from self._stale_fetch(s, fetch)
        for answer in s.answers:
            yield from self._late_answer(s, answer)
        for order in s.orders:
            yield from self._obey(s, order)
        yield from self._elections(s)
        yield from self._new_controller(s)
        yield from self._lower_min_insync(s)
        yield from self._moves(s)

    # --- records -------------------------------------------------------------------------------------------------------

    def _append(self, s: State, b: int) -> Iterator[Step]:
        broker = s.brokers[b]
        if broker.leading is not None and s.appended < self.bounds.records:
            number = s.appended + 1
            grown = broker._replace(log=(*broker.log, (number, broker.epoch)))
            yield (
                f"broker {b} appends record {number} in epoch {broker.epoch}",
                self._advanced(s._replace(appended=number), b, grown),
            )

    def _advanced(self, s: State, b: int, broker: Broker) -> State:
        """Move the high watermark of a leader; what it covers now is acked."""
        leading = broker.leading
        if leading is None:
            return self._with(s, b, broker)
        acting = leading
        if leading.change is not None:
            if "noMaximalIsr" in self.off and leading.change.joining is not None:
                acting = leading._replace(change=None)
            if "shrinkBeforeCas" in self.off and leading.change.joining is None:
                acting = leading._replace(isr=leading.change.members, change=None)
        if "outlivedEligible" in self.off:
            acting = acting._replace(elr=())
        state = leader_state(b, broker.epoch, acting)
        end = state.committed_end(len(broker.log), self._min_insync(s, b), broker.high_watermark)
        acked = s.acked
        for offset in range(end):
            record = broker.log[offset]
            if offset == len(acked):
                acked = (*acked, (record, broker.epoch))
            elif acked[offset][0] != record:
                raise Violation(f"broker {b} commits {record} at offset {offset}, where {acked[offset][0]} was acked")
            elif acked[offset][1] > broker.epoch:
                acked = (*acked[:offset], (record, broker.epoch), *acked[offset + 1 :])
        return self._with(s._replace(acked=acked), b, broker._replace(high_watermark=end))

    def _with(self, s: State, b: int, broker: Broker) -> State:
        """Put a broker in its place, and forget messages that can never matter again."""
        brokers = (*s.brokers[:b], broker, *s.brokers[b + 1 :])
        orders, fetches = s.orders, s.fetches
        if "noKip380" not in self.off:
            orders = frozenset(order for order in orders if order.to != b or self._matters(order, broker))
        if "unfencedFetch" not in self.off:
            fetches = frozenset(fetch for fetch in fetches if fetch.leader != b or broker.epoch <= fetch.epoch)
        return s._replace(brokers=brokers, orders=orders, fetches=fetches)

    # --- fetches -------------------------------------------------------------------------------------------------------

    def _snapshot(self, f: int, broker: Broker) -> StaleFetch:
        last = broker.cache[-1][0] if broker.cache else NO_EPOCH
        return StaleFetch(broker.leader, f, broker.broker_epoch, broker.epoch, len(broker.log), last)

    def _left_behind(self, s: State, f: int) -> State:
        """A broker moves on; what it asked its leader for may still arrive."""
        broker = s.brokers[f]
        if broker.leading is not None or broker.leader in (NO_LEADER, f):
            return s
        fetch = self._snapshot(f, broker)
        refused = "unfencedFetch" not in self.off and s.brokers[fetch.leader].epoch > fetch.epoch
        if refused or not fetch.offset:  # one that asks for the first record says nothing of its sender
            return s
        return s._replace(fetches=s.fetches | {fetch})

    def _divergence(self, leader: Broker, fetch: StaleFetch) -> tuple[int, int] | None:
        """Where a follower's log leaves the leader's, as Partition.fetched_by tells it."""
        if "lenOnly" in self.off:
            return (NO_EPOCH, len(leader.log)) if fetch.offset > len(leader.log) else None
        if fetch.last_epoch == NO_EPOCH:
            return None
        epoch, end = end_of_epoch(leader.cache, fetch.last_epoch, len(leader.log))
        return (epoch, end) if epoch != fetch.last_epoch or end < fetch.offset else None

    def _counted(self, s: State, fetch: StaleFetch) -> State:
        leader = s.brokers[fetch.leader]
        assert leader.leading is not None
        if "formerLifeFetch" in self.off:
            progress = put(leader.leading.followers, fetch.sender, (fetch.offset, fetch.broker_epoch))
        else:
            progress = after_fetch(fetch.leader, leader.epoch, leader.leading, fetch)
        return self._advanced(s, fetch.leader, leader._replace(leading=leader.leading._replace(followers=progress)))

    def _stale_fetch(self, s: State, fetch: StaleFetch) -> Iterator[Step]:
        leader = s.brokers[fetch.leader]
        if leader.leading is None or (leader.epoch != fetch.epoch and "unfencedFetch" not in self.off):
            return
        if self._divergence(leader, fetch) is None and fetch.offset <= len(leader.log):
            yield (
                f"broker {fetch.leader} gets an old fetch of broker {fetch.sender} epoch {fetch.epoch} offset {fetch.offset}",
                self._counted(s._replace(fetches=s.fetches - {fetch}), fetch),
            )

    def _fetch(self, s: State, f: int) -> Iterator[Step]:
        follower = s.brokers[f]
        if follower.leading is not None or follower.leader in (NO_LEADER, f):
            return
        fetch = self._snapshot(f, follower)
        leader = s.brokers[fetch.leader]
        if leader.leading is None:
            return
        same = leader.epoch == follower.epoch
        found = self._divergence(leader, fetch)
        if found is not None:
            if (same or "unfencedTruncate" in self.off) and (found[0] != NO_EPOCH or "lenOnly" in self.off):
                cut = self._cut(follower, *found)
                label = f"broker {f} cuts its log to {len(cut.log)} at the word of broker {fetch.leader}"
                yield label, self._with(s, f, cut)
                if "unfencedTruncate" in self.off:
                    yield f"{label}; this is on its way", s._replace(answers=s.answers | {(f, *found)})
            return
        if not same or fetch.offset > len(leader.log):
            return
        counted = self._counted(s, fetch)
        if (
            fetch.offset or f not in leader.leading.isr
        ):  # a member that has nothing: the leader knows no more than before
            yield f"broker {fetch.leader} counts broker {f} up to {fetch.offset}; the answer is lost", counted
        taken = self._taken(follower, counted.brokers[fetch.leader])
        if taken is not None:
            yield f"broker {f} fetches offset {fetch.offset} of broker {fetch.leader}", self._with(counted, f, taken)

    def _late_answer(self, s: State, answer: tuple[int, int, int]) -> Iterator[Step]:
        f, epoch, end = answer
        if s.brokers[f].leading is None:
            cut = self._cut(s.brokers[f], epoch, end)
            after = self._with(s._replace(answers=s.answers - {answer}), f, cut)
            yield f"broker {f} cuts its log to {len(cut.log)} as it was told long ago", after

    def _taken(self, follower: Broker, leader: Broker) -> Broker | None:
        """A follower appends the next record, as Partition.take_fetched does."""
        log, cache = follower.log, follower.cache
        if len(log) < len(leader.log):
            record = leader.log[len(log)]
            if cache and record[1] < cache[-1][0]:
                return None  # epochs never go back: the real log refuses too
            cache = cache_assign(cache, record[1], len(log))
            log = (*log, record)
        high_watermark = follower.high_watermark
        if (
            "truncToHW" in self.off
        ):  # elsewhere a follower's high watermark decides nothing: it may be as old as one likes
            high_watermark = max(high_watermark, min(leader.high_watermark, len(log)))
        return follower._replace(log=log, cache=cache, high_watermark=high_watermark)

    def _cut(self, follower: Broker, epoch: int, end: int) -> Broker:
        """Partition._cut."""
        if "lenOnly" in self.off:
            target = end
        else:
            own_epoch, own_end = end_of_epoch(follower.cache, epoch, len(follower.log))
            target = max(0, min(own_end, end) if own_epoch == epoch else own_end)
        return shortened(follower, min(target, len(follower.log)))

    # --- orders --------------------------------------------------------------------------------------------------------

    def _matters(self, order: Order, broker: Broker) -> bool:
        zk = order.state
        if order.broker_epoch != broker.broker_epoch and "noKip380" not in self.off:
            return order.broker_epoch > broker.broker_epoch
        if zk.epoch != broker.epoch:
            return zk.epoch > broker.epoch
        # In the same epoch an order changes a follower nothing but the version that it remembers, and that nothing else.
        if broker.leading is not None:
            return zk.version > broker.leading.version
        return zk.leader != broker.leader or zk.leader == order.to

    def _obey(self, s: State, order: Order) -> Iterator[Step]:
        """Partition.apply, behind the checks of ControlHandlers."""
        b, zk = order.to, order.state
        broker = s.brokers[b]
        meant_for_it = order.broker_epoch == broker.broker_epoch or "noKip380" in self.off
        if not (meant_for_it and self._matters(order, broker)):
            return
        s = self._left_behind(s, b)
        new_epoch = zk.epoch != broker.epoch
        told = broker._replace(leader=zk.leader, epoch=zk.epoch)
        if zk.leader != b:
            told = told._replace(leading=None)
            if "truncToHW" in self.off and new_epoch:
                told = shortened(told, told.high_watermark)
        elif told.leading is None or new_epoch:
            if told.cache and zk.epoch < told.cache[-1][0]:
                return
            cache = cache_assign(told.cache, zk.epoch, len(told.log))
            nobody = ((-1, -1),) * len(REPLICAS)
            replicas = zk.assignment.counted
            leading = Leading(len(told.log), zk.isr, zk.elr, zk.version, None, nobody, replicas)
            if b in s.failed or s.failures < self.bounds.failures:
                broken = s._replace(failed=s.failed | {b}, failures=s.failures + (b not in s.failed))
                yield (
                    f"broker {b} cannot begin epoch {zk.epoch}: its disk fails",
                    self._with(broken, b, told._replace(leading=None)),
                )
            if b in s.failed:
                return
            told = told._replace(cache=cache, leading=leading)
        elif zk.version > told.leading.version:
            told = told._replace(leading=settled(told.leading, zk))
        yield (
            f"broker {b} is told: leader {zk.leader} epoch {zk.epoch} isr {list(zk.isr)} version {zk.version}",
            self._advanced(s, b, told),
        )

    # --- the leader changes the ISR ------------------------------------------------------------------------------------

    def _change_isr(self, s: State, b: int) -> Iterator[Step]:
        broker = s.brokers[b]
        leading = broker.leading
        if leading is None:
            return
        if leading.change is not None:
            yield from self._settle(s, b, broker, leading, leading.change)
            return
        if s.changes >= self.bounds.changes or leading.version < s.zk.version:
            return  # the second: such a write is refused, and until then it only counts more replicas
        s = s._replace(changes=s.changes + 1)
        min_insync = self._min_insync(s, b)
        if leader_state(b, broker.epoch, leading).elr_outlived(min_insync):
            asked = with_change(b, broker.epoch, leading, min_insync=min_insync)
            yield f"broker {b} asks that none be eligible", self._advanced(s, b, broker._replace(leading=asked))
        for f in leading.replicas:
            if f == b:
                continue
            # "noEpochStart": as if this epoch had begun at the very first record.
            judged = leading._replace(start=0) if "noEpochStart" in self.off else leading
            if leader_state(b, broker.epoch, judged).may_join(f, broker.high_watermark):
                asked = with_change(b, broker.epoch, leading, joining=f, min_insync=min_insync)
                yield f"broker {b} asks to let broker {f} join", self._advanced(s, b, broker._replace(leading=asked))
            elif f in leading.isr:
                asked = with_change(b, broker.epoch, leading, leaving=f, min_insync=min_insync)
                yield f"broker {b} asks to throw broker {f} out", self._advanced(s, b, broker._replace(leading=asked))

    def _settle(self, s: State, b: int, broker: Broker, leading: Leading, change: Pending) -> Iterator[Step]:
        possible = change.in_flight and s.zk.version == leading.version and self._lives_hold(s, b, broker, change)
        if possible:
            zk = Zk(
                b, broker.epoch, change.members, s.zk.version + 1, change.elr, (), s.zk.assignment, broker.broker_epoch
            )
            zk = zk._replace(assignment=counted(zk, s.seen))
            landed = broker._replace(leading=leading._replace(change=change._replace(in_flight=False)))
            after = self._with(s._replace(zk=zk, suspect=s.suspect & zk.holders, lost=s.lost & zk.holders), b, landed)
            yield f"zookeeper takes isr {list(change.members)} of broker {b} version {zk.version}", after
        if s.zk.epoch == broker.epoch:  # the request has taken effect, or was refused, or was lost
            known = broker._replace(leading=settled(leading, s.zk))
            yield f"broker {b} learns isr {list(s.zk.isr)} version {s.zk.version}", self._advanced(s, b, known)

    def _lives_hold(self, s: State, b: int, broker: Broker, change: Pending) -> bool:
        """The checks that stand in the multi of an ISR change."""
        if s.registered[b].epoch != broker.broker_epoch:
            return False
        if change.joining is None or "noBeCheck" in self.off:
            return True
        return s.registered[change.joining].epoch == change.joining_epoch

    # --- lives ---------------------------------------------------------------------------------------------------------

    def _lives(self, s: State, b: int) -> Iterator[Step]:
        if s.lives >= self.bounds.lives:
            return
        registered, broker = s.registered[b], s.brokers[b]
        if registered.live and s.seen[b] == registered.epoch:
            fenced = s._replace(lives=s.lives + 1, seen=put(s.seen, b, 0))
            fenced = fenced._replace(registered=put(s.registered, b, Registration(registered.epoch + 1, False)))
            yield f"the controller fences broker {b}", fenced
        new = Registration(registered.epoch + 1, True)
        after = self._left_behind(s, b)._replace(lives=s.lives + 1, registered=put(s.registered, b, new))
        after = after._replace(failed=s.failed - {b})
        if not registered.live:
            again = broker._replace(broker_epoch=new.epoch, leader=NO_LEADER, leading=None)
            yield f"broker {b} notices that it was fenced and registers anew", self._with(after, b, again)
        restarted = Broker(new.epoch, NO_LEADER, NO_EPOCH, broker.log, broker.cache, 0, None)
        yield f"broker {b} restarts", self._with(after, b, restarted)
        others = set(s.zk.isr) - s.suspect - s.lost - {b}
        if s.losses < self.bounds.losses and (b not in s.zk.holders or others):
            suspect = s.suspect | ({b} & s.zk.holders)
            powerless = after._replace(losses=s.losses + 1, suspect=suspect)
            for end in range(len(broker.log)):
                lost = shortened(restarted, end)
                label = f"broker {b} loses power, and its log from {end} on, and restarts"
                yield label, self._with(powerless, b, lost)
        if s.wipes < self.bounds.wipes and broker.log:
            after = after._replace(wipes=s.wipes + 1, lost=s.lost | ({b} & s.zk.holders))
            yield f"broker {b} restarts with an empty disk", self._with(after, b, shortened(restarted, 0))
