"""The parts of a request, one for each partition: how many there may be, no partition twice, and how much is answered."""

from collections.abc import Sequence
from typing import Protocol

from ottla.wire.errors import InvalidRequest, InvalidTopic, NotLeaderOrFollower, OttlaError, UnknownTopicOrPartition
from ottla.wire.names import NO_LEADER, check_topic_name
from ottla.wire.requests import FetchPart

PARTS_MAX = 10_000

ANSWER_MAX = 64 * 1024 * 1024
"""The most bytes of records that one answer brings, whatever is asked for; who wants more asks again."""


class Part(Protocol):
    topic: str
    partition: int


def check_parts(parts: Sequence[Part], *, repeated: bool = False) -> None:
    """Raise if there are too many, or if a partition is asked for twice: each would be worked on, and waited for, again."""
    count = len(parts)
    if count < 2:
        return
    _check_count(count)
    if not repeated and len({(part.topic, part.partition) for part in parts}) != count:
        raise InvalidRequest(f"{count} parts in one request, and some name the same partition")


def check_parts_by_id(parts: Sequence[FetchPart]) -> None:
    """The same for parts that name topics by their ids: some of those may be unknown."""
    count = len(parts)
    _check_count(count)
    if len({(part.topic_id, part.partition) for part in parts}) != count:
        raise InvalidRequest(f"{count} parts in one request, and some name the same partition")


def _check_count(count: int) -> None:
    if count > PARTS_MAX:
        raise InvalidRequest(f"{count} parts in one request; at most {PARTS_MAX}")


def client_error(error: OttlaError, topic: str, leader: int = NO_LEADER) -> OttlaError:
    """The error as a client is told it.

    What this broker does not have may be led by another; and that a topic does not exist is worth asking again for only
    if it ever can.
    """
    if isinstance(error, UnknownTopicOrPartition):
        if leader != NO_LEADER:
            return NotLeaderOrFollower(f"{error}; broker {leader} leads it", topic=topic, partition=error.partition)
        try:
            check_topic_name(topic)
        except InvalidTopic as invalid:
            return invalid
    return error
