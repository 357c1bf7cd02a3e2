"""The parts of a request, one for each partition: how many there may be, and how much is answered."""

from collections.abc import Sequence
from typing import Protocol

from ottla.wire.errors import InvalidRequest, InvalidTopic, NotLeaderOrFollower, OttlaError, UnknownTopicOrPartition
from ottla.wire.names import NO_LEADER, TOPIC_NAME_MAX, check_topic_name
from ottla.wire.request_limits import PARTS_MAX
from ottla.wire.requests import FetchPart

ANSWER_MAX = 64 * 1024 * 1024
"""The most bytes of records that one answer brings, whatever is asked for; who wants more asks again."""


class Part(Protocol):
    topic: str
    partition: int


def check_parts(parts: Sequence[Part]) -> None:
    """Raise if there are too many. One partition may be named several times: what that means is for each api to say."""
    if len(parts) > PARTS_MAX:
        raise InvalidRequest(f"{len(parts)} parts in one request; at most {PARTS_MAX}")


def have_short_names(parts: Sequence[FetchPart]) -> bool:
    """Whether names and ids are no longer than those of topics: longer ones could fill the memory if they were kept."""
    return all(len(part.topic) <= TOPIC_NAME_MAX and len(part.topic_id) <= TOPIC_NAME_MAX for part in parts)


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
