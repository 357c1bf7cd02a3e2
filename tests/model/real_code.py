"""The real code that the model calls, fed with tuples and remembered: the same question comes up many thousand times."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from ottla.broker.controller.state import Broker, ControllerState, WriteStates
from ottla.broker.replication.state import UNKNOWN, Change, Isr, LeaderState
from ottla.broker.storage.epochs import EpochCache, EpochStart
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.broker_znodes import DataState
from ottla.zk.metadata import LoadedTopic, VersionedState
from ottla.zk.znodes import PartitionStateZnode, TopicZnode
from tests.model.states import Broker as ModelBroker
from tests.model.states import Leading, Pending, StaleFetch, Zk

Entries = tuple[tuple[int, int], ...]


class CacheInMemory(EpochCache):
    """The real leader-epoch cache without its file."""

    def _replace(self, entries: list[EpochStart], **_: object) -> None:
        self._entries = entries


def _cache(entries: Entries) -> CacheInMemory:
    return CacheInMemory(Path(), [EpochStart(*entry) for entry in entries])


@cache
def end_of_epoch(entries: Entries, epoch: int, log_end: int) -> tuple[int, int]:
    return _cache(entries).end_offset_for(epoch, log_end)


@cache
def cache_assign(entries: Entries, epoch: int, start: int) -> Entries:
    cache = _cache(entries)
    cache.assign(epoch, start)
    return tuple((entry.epoch, entry.start_offset) for entry in cache.entries)


@cache
def cache_cut(entries: Entries, end: int) -> Entries:
    cache = _cache(entries)
    cache.truncate_from_end(end)
    return tuple((entry.epoch, entry.start_offset) for entry in cache.entries)


def shortened(broker: ModelBroker, end: int) -> ModelBroker:
    """A broker whose log ends at ``end``, and its epochs with it."""
    return broker._replace(
        log=broker.log[:end], cache=cache_cut(broker.cache, end), high_watermark=min(broker.high_watermark, end)
    )


@cache
def leader_state(broker: int, epoch: int, leading: Leading) -> LeaderState:
    """A real LeaderState that knows what the model's leader knows. Shared: only ask it, never change it."""
    return _leader_state(broker, epoch, leading)


@cache
def after_fetch(broker: int, epoch: int, leading: Leading, fetch: StaleFetch) -> tuple[tuple[int, int], ...]:
    """What a leader knows of each replica once it has seen a fetch."""
    state = _leader_state(broker, epoch, leading)
    state.fetched(fetch.sender, fetch.offset, fetch.broker_epoch, fetch.offset, 0.0)
    unknown = (UNKNOWN, UNKNOWN)
    known = {replica: (seen.log_end_offset, seen.broker_epoch) for replica, seen in state.followers.items()}
    return tuple(known.get(replica, unknown) for replica in range(len(leading.followers)))


def _leader_state(broker: int, epoch: int, leading: Leading) -> LeaderState:
    isr = Isr(leading.isr, leading.version, leading.eligible)
    state = LeaderState(broker, epoch, leading.start, range(len(leading.followers)), isr, 0.0)
    for replica, (end, broker_epoch) in enumerate(leading.followers):
        if replica != broker and end >= 0:
            state.fetched(replica, end, broker_epoch, end, 0.0)
    if leading.change is not None:
        state.change = Change(*leading.change[:4])
    return state


@cache
def with_change(
    broker: int,
    epoch: int,
    leading: Leading,
    *,
    joining: int | None = None,
    leaving: int | None = None,
    min_insync: int,
) -> Leading:
    """The same leader after it asked for a change of its ISR."""
    state = _leader_state(broker, epoch, leading)
    if joining is not None:
        change = state.ask_to_join(joining, min_insync)
    elif leaving is None:
        change = state.ask_to_forget_eligible()
    else:
        change = state.ask_to_leave(frozenset({leaving}), min_insync)
    members = tuple(sorted(change.members))
    return leading._replace(change=Pending(members, change.eligible, change.joining, change.joining_epoch, True))


class Decision(NamedTuple):
    """What the controller wants to write, and the lives of brokers that it relies on."""

    leader: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    lost: tuple[int, ...]
    lives: tuple[tuple[int, int], ...]


@cache
def decision(
    zk: Zk,
    seen: tuple[int, ...],
    suspect: frozenset[int],
    lost: frozenset[int],
    preferred: int | None,
    min_insync: int,
) -> Decision | None:
    """What the real controller decides about one partition, for a failure or for a wish; None if it leaves it as it is."""
    controller = ControllerState(9, 1, min_insync)
    replicas = tuple(range(len(seen)))
    if preferred is not None:
        replicas = (preferred, *(b for b in replicas if b != preferred))
    data = {**dict.fromkeys(suspect, DataState.TAIL_SUSPECT), **dict.fromkeys(lost, DataState.LOST)}
    brokers = {
        b: Broker(BrokerEndpoint(b, "host", 9092), epoch, data.get(b, DataState.WHOLE))
        for b, epoch in enumerate(seen)
        if epoch
    }
    state = PartitionStateZnode(zk.leader, zk.epoch, 1, zk.isr, zk.eligible, lost=zk.lost)
    topic = TopicZnode({0: replicas}, "id")
    loaded = LoadedTopic("topic", topic, 0, {}, {0: VersionedState(state, zk.version)})
    actions = controller.loaded(brokers, [loaded], [])
    if preferred is not None:
        actions = controller.preferred_leaders()
    for action in actions:
        if isinstance(action, WriteStates):
            (change,) = action.changes
            found = change.state
            return Decision(found.leader, found.isr, found.elr, found.lost, tuple(change.broker_epochs.items()))
    return None
