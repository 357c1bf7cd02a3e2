"""Partitions as people name them: ``TOPIC`` for all of a topic, ``TOPIC:PARTITION`` for one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.cli.errors import topic_not_found
from ottla.wire.errors import ConfigError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client import Admin, TopicPartition


def places_named(admin: "Admin", named: Iterable[str], timeout_s: float) -> "list[TopicPartition]":
    """Each once, in the order in which they were named."""
    from ottla.client import TopicPartition

    places: dict[TopicPartition, None] = {}
    for text in named:
        topic, colon, number = text.rpartition(":")
        if colon and not (number.isascii() and number.isdigit()):
            raise ConfigError(f"{text!r} is no TOPIC or TOPIC:PARTITION")
        name = topic if colon else text
        try:
            count = len(admin.describe_topic(name, timeout=timeout_s).partitions)
        except UnknownTopicOrPartition as error:
            raise topic_not_found(name, admin.list_topics(timeout=timeout_s)) from error
        if colon and int(number) >= count:
            raise ConfigError(f"there is no partition {number} of topic {name!r}", hint=f"it has {count}")
        numbers = [int(number)] if colon else range(count)
        places.update(dict.fromkeys(TopicPartition(name, partition) for partition in numbers))
    return list(places)
