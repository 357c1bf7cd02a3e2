"""Orders that are too long for one request, in pieces. Pure.

A request has a limit (wire/native.py), and a broker does nothing else while it reads one. What is told about a topic comes in
one piece if it fits: its settings first, then its partitions.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from ottla.broker.storage.topic_configs import TOPIC_CONFIGS
from ottla.wire.control import (
    LeaderAndIsrRequest,
    Order,
    PartitionState,
    StopReplicaPart,
    TopicConfig,
    UpdateMetadataRequest,
)

PIECE_BYTES = 512 * 1024
"""A quarter second of reading at most, and an eighth of what one request may hold: room for the brokers' addresses."""

STRUCT_BYTES = 100
"""Everything of a part but its names and lists: seven numbers of nine bytes, and what msgpack puts around them."""

NUMBER_BYTES = 5
CHARACTER_BYTES = 4

T = TypeVar("T")


@dataclass
class _Piece:
    topics: list[TopicConfig] = field(default_factory=list)
    partitions: list[PartitionState] = field(default_factory=list)
    weight: int = 0


def in_pieces(order: Order) -> list[Order]:
    """The order as requests that can be sent, one after the other: mostly itself."""
    if isinstance(order, UpdateMetadataRequest):
        return list(_metadata(order))
    if isinstance(order, LeaderAndIsrRequest):
        return [replace(order, topics=p.topics, partitions=p.partitions) for p in _cut(order.topics, order.partitions)]
    return [replace(order, parts=parts) for parts in _runs(order.parts, _part_weight)]


def _metadata(order: UpdateMetadataRequest) -> Iterator[UpdateMetadataRequest]:
    gone = list(_runs(order.deleted, _name_weight))
    known = _cut(order.topics, order.partitions)
    last = max(len(gone), len(known)) - 1
    for number in range(last + 1):
        piece = known[number] if number < len(known) else _Piece()
        deleted = gone[number] if number < len(gone) else []
        yield replace(
            order,
            topics=piece.topics,
            partitions=piece.partitions,
            deleted=deleted,
            piece=number if order.full else 0,  # only what replaces all that was known must be taken as a whole
            more=number < last,
            groups=order.groups if number == last else None,
        )


def _cut(topics: Iterable[TopicConfig], partitions: Iterable[PartitionState]) -> list[_Piece]:
    """At least one piece; settings of a topic never come after its partitions."""
    of_topic: dict[str, list[PartitionState]] = {}
    for state in partitions:
        of_topic.setdefault(state.topic, []).append(state)
    pieces = [_Piece()]
    for topic in topics:
        told = _sendable(topic)
        states = of_topic.pop(topic.topic, [])
        weight = _topic_weight(told)
        whole = weight + sum(map(_state_weight, states))
        _room(pieces, whole if whole <= PIECE_BYTES else weight).topics.append(told)
        pieces[-1].weight += weight
        _add_states(pieces, states)
    for states in of_topic.values():
        _add_states(pieces, states)
    return pieces


def _add_states(pieces: list[_Piece], states: list[PartitionState]) -> None:
    for state in states:
        weight = _state_weight(state)
        _room(pieces, weight).partitions.append(state)
        pieces[-1].weight += weight


def _room(pieces: list[_Piece], weight: int) -> _Piece:
    """The last piece, or a new one if so much more is too much for it."""
    if pieces[-1].weight and pieces[-1].weight + weight > PIECE_BYTES:
        pieces.append(_Piece())
    return pieces[-1]


def _runs(items: list[T], weight_of: Callable[[T], int]) -> Iterator[list[T]]:
    """At least one run."""
    run: list[T] = []
    weight = 0
    for item in items:
        if run and weight + weight_of(item) > PIECE_BYTES:
            yield run
            run, weight = [], 0
        run.append(item)
        weight += weight_of(item)
    yield run


def _sendable(topic: TopicConfig) -> TopicConfig:
    """The topic, without settings that are too long to mean anything: somebody wrote them into ZooKeeper by other means."""
    if _topic_weight(topic) <= PIECE_BYTES // 8:
        return topic
    stripped = {key: topic.config[key].strip() for key in TOPIC_CONFIGS if key in topic.config}
    config = {key: value for key, value in stripped.items() if len(value) <= TOPIC_CONFIGS[key].kind.length_max}
    return replace(topic, config=config)


def _topic_weight(topic: TopicConfig) -> int:
    settings = sum(len(key) + len(value) for key, value in topic.config.items())
    names = len(topic.topic) + len(topic.topic_id)
    return STRUCT_BYTES + names + CHARACTER_BYTES * settings + 2 * NUMBER_BYTES * len(topic.config)


def _state_weight(state: PartitionState) -> int:
    numbers = len(state.replicas) + len(state.isr) + len(state.elr)
    return STRUCT_BYTES + len(state.topic) + len(state.topic_id) + NUMBER_BYTES * numbers


def _part_weight(part: StopReplicaPart) -> int:
    return STRUCT_BYTES + len(part.topic) + len(part.topic_id)


def _name_weight(name: str) -> int:
    return NUMBER_BYTES + len(name)
