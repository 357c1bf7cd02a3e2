"""What an api is to this dialect: its versions, how its requests become ours, and how our answers become its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError
from ottla.wire.kafka.schemas import Values
from ottla.wire.kafka.topic_ids import TopicIds
from ottla.wire.messages import Message, Request


@dataclass(frozen=True)
class Asked:
    """A request with the fields of its version, and what is known of topics."""

    entity: Any
    version: int
    topics: TopicIds

    def get(self, field: str, default: Any = None) -> Any:
        """A field that not all versions have."""
        return getattr(self.entity, field, default)


@dataclass(frozen=True)
class Read:
    """One of our requests, and what its answer needs to know of how it was asked."""

    message: Request
    context: Any = None


@dataclass(frozen=True)
class KafkaApi:
    """One row of the table."""

    key: int
    oldest: int
    newest: int
    read: Callable[[Asked], Read]
    write: Callable[[IncomingRequest, Any], Values]
    """The values of the response, of all versions at once."""
    failed: Callable[[IncomingRequest, OttlaError], Values]
    """The same where the request failed as a whole: each of its parts has, or the answer as such."""


def error_values(error: OttlaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": str(error)}


def host_of(address: str) -> str:
    """The address of a member as Kafka's brokers return it: Java writes a host without a name so."""
    return f"/{address}" if address else ""


def failed_at_top(request: IncomingRequest, error: OttlaError) -> Values:
    """For answers that have one error for everything."""
    return error_values(error)


def by_topic(parts: Any) -> dict[str, list[Any]]:
    """Parts in the order of their topics, as Kafka's answers have them."""
    found: dict[str, list[Any]] = {}
    for part in parts:
        found.setdefault(part.topic, []).append(part)
    return found


def message_of(request: IncomingRequest) -> Message:
    return request.message
