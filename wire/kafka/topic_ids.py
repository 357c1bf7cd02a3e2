"""Topic ids as Kafka's newer requests have them, 16 bytes, beside ours: the same in 22 letters, as ZooKeeper has it."""

import base64
import binascii
from typing import Protocol

from ottla.wire.kafka.primitives import NO_UUID


class TopicIds(Protocol):
    """What is known of topics, by name and by id."""

    def topic_id_of(self, topic: str) -> str:
        """The id of the topic that has this name; empty if none is known."""
        ...

    def topic_name_of(self, topic_id: str) -> str | None:
        """The name of the topic that has this id, if one is known."""
        ...


def to_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def to_bytes(text: str) -> bytes:
    """16 zeros where there is no id."""
    if not text:
        return NO_UUID
    try:
        found = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error:
        return NO_UUID
    return found if len(found) == len(NO_UUID) else NO_UUID
