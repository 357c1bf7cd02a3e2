"""The real code that the model calls, fed with tuples and remembered: the same question comes up many thousand times."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ottla.broker.controller.decisions.state import Action, Broker, ControllerState, Tell, WriteStates
from ottla.broker.replication.state import UNKNOWN, Change, Isr, LeaderState
from ottla.broker.storage.epochs import EpochCache, EpochStart
from ottla.wire.control import StopReplicaRequest
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import TopicPartition
from ottla.zk.metadata import LoadedTopic, VersionedState
from ottla.zk.znodes.brokers import DataState
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode
from tests.model.states import Assignment, Leading, Pending, StaleFetch, Zk
from tests.model.states import Broker as ModelBroker

Entries = tuple[tuple[int, int], ...]

WHERE = TopicPartition("topic", 0)


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
    isr = Isr(leading.isr, leading.version, leading.elr)
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
        change = state.ask_to_clear_elr()
    else:
        change = state.ask_to_leave(frozenset({leaving}), min_insync)
    members = tuple(sorted(change.members))
    return leading._replace(change=Pending(members, change.elr, change.joining, change.joining_epoch, True))


class Decision(NamedTuple):
    """What the controller wants to write, and the lives of brokers that it relies on."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    lost: tuple[int, ...]
    elected: int
    lives: tuple[tuple[int, int], ...]


def _controller(
    zk: Zk,
    seen: tuple[int, ...],
    *,
    data: Mapping[int, DataState] = MappingProxyType({}),
    failed: Iterable[int] = (),
    preferred: int | None = None,
    min_insync: int = 1,
) -> tuple[ControllerState, list[Action]]:
    """A real controller that has just read everything, and what it wants done first."""
    controller = ControllerState(9, 1, min_insync)
    # It stands for one that has been there all the time, and has announced the moves that it began.
    controller._reassignment.resume = lambda: None  # type: ignore[method-assign]
    for b in failed:
        controller._leaders.failed(b, [WHERE])
    replicas, adding, removing, _ = zk.assignment
    if preferred is not None:
        replicas = (preferred, *(b for b in replicas if b != preferred))
    brokers = {
        b: Broker(BrokerEndpoint(b, "host", 9092), epoch, data.get(b, DataState.WHOLE))
        for b, epoch in enumerate(seen)
        if epoch
    }
    state = PartitionStateZnode(zk.leader, zk.epoch, 1, zk.isr, zk.elr, lost=zk.lost, leader_broker_epoch=zk.elected)
    topic = TopicZnode({0: replicas}, "id", {0: adding}, {0: removing})
    loaded = LoadedTopic(WHERE.topic, topic, 0, {}, {0: VersionedState(state, zk.version)})
    return controller, controller.loaded(brokers, [loaded], [])


@cache
def may_be_told(zk: Zk, seen: tuple[int, ...], broker: int) -> bool:
    """Whether the real controller, that knows this, tells a broker to lead or follow."""
    controller, _ = _controller(zk, seen)
    return controller.leader_and_isr(broker, [WHERE]) is not None


@cache
def decision(
    zk: Zk,
    seen: tuple[int, ...],
    suspect: frozenset[int],
    lost: frozenset[int],
    failed: frozenset[int],
    preferred: int | None,
    min_insync: int,
) -> Decision | None:
    """What the real controller decides about one partition, for a failure or for a wish; None if it leaves it as it is."""
    data = {**dict.fromkeys(suspect, DataState.TAIL_SUSPECT), **dict.fromkeys(lost, DataState.LOST)}
    controller, actions = _controller(zk, seen, data=data, failed=failed, preferred=preferred, min_insync=min_insync)
    if preferred is not None:
        actions = controller.preferred_leaders()
    return _written(actions)


@cache
def handed_over(
    zk: Zk, seen: tuple[int, ...], suspect: frozenset[int], cut_off: frozenset[int], min_insync: int
) -> Decision | None:
    """What the real controller decides when it reaches the leader and ``cut_off`` brokers do not."""
    data = dict.fromkeys(suspect, DataState.TAIL_SUSPECT)
    controller, actions = _controller(zk, seen, data=data, min_insync=min_insync)
    if any(isinstance(action, WriteStates) for action in actions):
        return None  # first that, and then the rest
    return _written(controller.leader_unreachable(zk.leader, cut_off))


def _written(actions: list[Action]) -> Decision | None:
    for action in actions:
        if isinstance(action, WriteStates):
            (change,) = action.changes
            found = change.state
            lives = tuple(change.broker_epochs.items())
            return Decision(found.leader, found.isr, found.elr, found.lost, max(0, found.leader_broker_epoch), lives)
    return None


def _assignment(controller: ControllerState) -> Assignment:
    topic = controller.topics[WHERE.topic]
    return Assignment(topic.replicas[0], topic.adding.get(0, ()), topic.removing.get(0, ()), topic.counted(0))


@cache
def counted(zk: Zk, seen: tuple[int, ...]) -> Assignment:
    """The same assignment, with those that count by what stands in ZooKeeper now."""
    controller = ControllerState(9, 1)
    replicas, adding, removing, _ = zk.assignment
    state = VersionedState(PartitionStateZnode(zk.leader, zk.epoch, 1, zk.isr, zk.elr), zk.version)
    topic = TopicZnode({0: replicas}, "id", {0: adding}, {0: removing})
    controller.topic_created(LoadedTopic(WHERE.topic, topic, 0, {}, {0: state}))
    return _assignment(controller)


@cache
def begun_move(zk: Zk, seen: tuple[int, ...], target: tuple[int, ...], *, forgets_movers: bool) -> Assignment | None:
    """The assignment as a move begins; None if there is nothing to begin."""
    controller, _ = _controller(zk, seen)
    if forgets_movers:  # as if those that are on their way out had gone already
        topic = controller.topics[WHERE.topic]
        topic.replicas[0] = topic.target(0)
        topic.removing.pop(0, None)
    return _assignment(controller) if controller.requests.reassign(WHERE, target) else None


@cache
def ended_move(zk: Zk, seen: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
    """The assignment once a move has ended, and who must delete what it has; None if none ends now."""
    _, actions = _controller(zk, seen)
    if any(isinstance(action, WriteStates) for action in actions):
        return None  # first that, and then the rest
    controller, actions = _controller(zk, seen)
    stops = tuple(a.broker for a in actions if isinstance(a, Tell) and isinstance(a.request, StopReplicaRequest))
    after = _assignment(controller)
    return (after, stops) if after != zk.assignment else None
