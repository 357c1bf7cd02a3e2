"""Kafka's dialect as tests use it: it knows two topics; and a full answer to any request, made by the types of its fields."""

import types
import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from ottla.wire.batch import Buffer
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.kafka.topic_ids import to_text
from ottla.wire.messages import Message

IDS = {"first": bytes(range(16)), "second": bytes(range(16, 32))}


class TwoTopics:
    def topic_id_of(self, topic: str) -> str:
        return to_text(IDS[topic]) if topic in IDS else ""

    def topic_name_of(self, topic_id: str) -> str | None:
        return next((name for name, one in IDS.items() if to_text(one) == topic_id), None)


def as_they_are(topic: str, partition: int, views: Sequence[Buffer], most: int) -> tuple[list[Buffer], int]:
    return list(views), 0


def dialect_of_two_topics() -> KafkaDialect:
    return KafkaDialect(TwoTopics(), as_they_are)


def sample(kind: Any) -> Any:
    """A value of this type in which nothing is missing: every list has an element, every option a value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return sample(next(option for option in inner if option is not type(None)))
    if origin is list:
        return [sample(inner[0])]
    if origin is tuple:
        return (sample(inner[0]),) if inner[-1] is Ellipsis else tuple(map(sample, inner))
    if origin is dict:
        return {sample(inner[0]): sample(inner[1])}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(*(sample(hints[name]) for name in kind.__struct_fields__))
    return {str: "first", int: 1, bool: True, bytes: b"bytes", float: 1.0}[kind]


def answer_to(request: Message) -> Message:
    """A full answer of the kind that the request gets."""
    found = sample(type(request).response)  # type: ignore[attr-defined]
    assert isinstance(found, Message)
    return found
