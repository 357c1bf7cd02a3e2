"""Partitions as users name them: a TopicPartition, topic and number, or lists of those. Pure."""

import operator
from collections.abc import Iterable

from ottla.wire.errors import ConfigError
from ottla.wire.names import TopicPartition

Place = tuple[str, int]
"""A TopicPartition, or topic and number."""

_HINT = "give TopicPartition(topic, number), or (topic, number)"


def places_of(given: Iterable[Place | Iterable[Place]]) -> list[TopicPartition]:
    """Partitions that were named one by one, or in lists."""
    found: list[TopicPartition] = []
    for each in given:
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise ConfigError(f"{each!r} is no partition", hint=_HINT)
        if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str):
            found.append(place_of(*each))
        else:
            found += places_of(each)
    return found


def place_of(topic: str | Place, partition: int | None = None) -> TopicPartition:
    """One partition, given as one thing or as two."""
    if partition is None and isinstance(topic, tuple) and len(topic) == 2:
        topic, partition = topic
    if not isinstance(topic, str):
        raise ConfigError(f"{topic!r}, {partition!r} is no partition", hint=_HINT)
    try:
        return TopicPartition(topic, operator.index(partition))  # type: ignore[arg-type]  # any integer, numpy's too
    except TypeError:
        raise ConfigError(f"{topic!r}, {partition!r} is no partition", hint=_HINT) from None


def place_and_offset(topic: str | Place, partition: int | None, offset: int | None) -> tuple[TopicPartition, int]:
    """``seek(topic, partition, offset)`` or ``seek(TopicPartition, offset)``."""
    if offset is None and not isinstance(topic, str):
        partition, offset = None, partition
    where = place_of(topic, partition)
    try:
        return where, operator.index(offset)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(f"seek in {where} to {offset!r}", hint="give an offset") from None


def check_topics(topics: tuple[object, ...]) -> None:
    """What a consumer is given besides keywords: the names of topics."""
    for topic in topics:
        if isinstance(topic, dict):
            raise ConfigError("options are keywords", hint="from_config(topics, {...}) takes Kafka's own names")
        if not isinstance(topic, str):
            raise ConfigError(f"{topic!r} is no topic's name", hint="name topics one by one: Consumer('a', 'b')")
