"""Errors that never travel: they are raised where they happen. Imported from ottla.wire.errors, as all errors."""

from typing import Any

from ottla.wire.error import OttlaError


class LocalProtocolError(OttlaError):
    """We were about to send something that the protocol forbids."""


class RemoteProtocolError(OttlaError):
    """The other side sent something that the protocol forbids."""


class ConfigError(OttlaError, ValueError):
    """A setting is unknown or has a value that is not allowed."""


class NoBrokersAvailable(OttlaError, retriable=True):
    """No broker could be reached."""


class BrokerRefused(NoBrokersAvailable):
    """Nobody listens at the address of a broker."""


class RecordDeserializationError(OttlaError):
    """A deserializer refused a record; a consumer stands before it until it seeks to ``next_offset``."""

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int = -1,
        record: Any = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, hint=hint)
        self.offset = offset
        self.next_offset = offset + 1
        """Where to seek to go on behind it."""
        self.record = record
        """The record as it came, key and value in bytes."""


class ClientTimeout(OttlaError, TimeoutError, retriable=True):
    """A wait took longer than its timeout."""


class ClientClosed(OttlaError):
    """The producer, consumer or admin was closed."""
