"""The options of clients as tools see them: keywords with types for checkers and editors, and text for help().

What an option means, its default and what is allowed stands in config.py; a test holds the two together.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Literal, TypedDict, TypeVar

from ottla.client.config import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    OnDelivery,
    OnDeserializationError,
    ProducerConfig,
    Serializer,
)

T = TypeVar("T")

Servers = str | Sequence[str] | Sequence[tuple[str, int]]
Acks = Literal["all", "-1", "0", "1", -1, 0, 1]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class AdminOptions(TypedDict, total=False):
    """What all clients can be told."""

    bootstrap_servers: Servers
    client_id: str
    request_timeout_ms: int
    connect_timeout_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    busy_poll_us: int


class ProducerOptions(AdminOptions, total=False):
    """What a producer can be told."""

    acks: Acks
    linger_ms: float
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    enable_idempotence: bool | None
    max_in_flight_requests_per_connection: int
    compression_type: Compression | None
    receipts: bool
    partitioner: Literal["round_robin", "sticky"]
    on_delivery: OnDelivery | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None


class ConsumerOptions(AdminOptions, total=False):
    """What a consumer can be told, but for its deserializers: they say what its records are made of."""

    auto_offset_reset: Literal["earliest", "latest", "none"]
    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    partition_assignment_strategy: str | Sequence[str]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    fetch_buffer_bytes: int
    consumer_timeout_ms: float
    check_crcs: bool
    on_deserialization_error: Literal["raise", "skip"] | OnDeserializationError


def documented(config: type[ClientConfig]) -> Callable[[type[T]], type[T]]:
    """Of a client: its docstring names every option, and its signature too."""

    def with_options(cls: type[T]) -> type[T]:
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{options_text(config)}"
        given = inspect.signature(cls.__init__).parameters.values()
        kept = [p for p in given if p.kind is p.VAR_POSITIONAL]
        cls.__signature__ = inspect.Signature([*kept, *_parameters(config)])  # type: ignore[attr-defined]
        return cls

    return with_options


def options_text(config: type[ClientConfig]) -> str:
    """All options, one in a line, those that only this client has first."""
    names = sorted(fields(config), key=lambda option: option.name in _SHARED)
    lines = [f"    {option.name}={option.default!r}: {option.metadata['help']}" for option in names]
    return "Options, all of them keywords:\n\n" + "\n".join(lines)


def _parameters(config: type[ClientConfig]) -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(option.name, keyword, default=option.default, annotation=option.type)
        for option in fields(config)
    ]


_SHARED = {option.name for option in fields(ClientConfig)}

TYPED: dict[type[ClientConfig], tuple[Any, tuple[str, ...]]] = {
    AdminConfig: (AdminOptions, ()),
    ProducerConfig: (ProducerOptions, ()),
    ConsumerConfig: (ConsumerOptions, ("key_deserializer", "value_deserializer")),
}
"""For each config what tools see of it, and the options that stand in the signature beside that."""
