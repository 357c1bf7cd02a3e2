"""The parts of a request, one for each partition: how many there may be, and no partition twice."""

from collections.abc import Sequence
from typing import Protocol

from ottla.wire.errors import InvalidRequest, InvalidTopic, OttlaError, UnknownTopicOrPartition
from ottla.wire.names import check_topic_name

PARTS_MAX = 10_000


class Part(Protocol):
    topic: str
    partition: int


def check_parts(parts: Sequence[Part]) -> None:
    """Raise if there are too many, or if a partition is asked for twice: each would be worked on, and waited for, again."""
    count = len(parts)
    if count < 2:
        return
    if count > PARTS_MAX:
        raise InvalidRequest(f"{count} parts in one request; at most {PARTS_MAX}")
    if len({(part.topic, part.partition) for part in parts}) != count:
        raise InvalidRequest(f"{count} parts in one request, and some name the same partition")


def told(error: OttlaError, topic: str) -> OttlaError:
    """The error as the peer is told it: that a topic does not exist is worth asking again for only if it ever can."""
    if isinstance(error, UnknownTopicOrPartition):
        try:
            check_topic_name(topic)
        except InvalidTopic as invalid:
            return invalid
    return error
