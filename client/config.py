"""What a producer, a consumer and an admin can be told: Kafka's names, as keyword arguments."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ottla.client.records import RecordMetadata
from ottla.net.busy_poll import BUSY_POLL_MAX_US
from ottla.wire.batch import Codec
from ottla.wire.errors import ConfigError, OttlaError, RecordDeserializationError
from ottla.wire.framing import FRAME_MAX
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER, ACKS_NONE

C = TypeVar("C", bound="ClientConfig")

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[Any], Any]

OnDelivery = Callable[[OttlaError | None, RecordMetadata], object]
"""Told of each record, on the client's own thread: why it was not delivered (None if it was), and where it went or should have
gone; its offset is -1 if it went nowhere. It must not block."""

OnDeserializationError = Callable[[RecordDeserializationError], object]
"""Given the error, with the record as it came, in the thread that reads. If it returns, reading goes on behind the record; what
it raises is raised, and the record comes again, as it may after a crash: it is called at least once for each."""

DEFAULT_PORT = 9092

IDEMPOTENT_IN_FLIGHT_MAX = 5
"""What brokers remember of a producer covers so many requests: more in flight could not be told apart when they come again."""

MAX_REQUEST_SIZE_MAX = FRAME_MAX - 8 * 1024 * 1024
"""What a frame has room for beside the names of the partitions, and what compressing adds where nothing can be compressed."""


def option(default: Any, text: str) -> Any:
    """A field of a config: its default and what it is for, in the user's words."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What all clients share."""

    bootstrap_servers: str | Sequence[str] = option(
        "127.0.0.1:9092", "brokers to ask first: host:port, a comma list or a sequence"
    )
    client_id: str = option("ottla", "a name that brokers see in their logs")
    request_timeout_ms: int = option(30_000, "how long one request may take")
    connect_timeout_ms: int = option(5_000, "how long connecting to one broker may take")
    metadata_max_age_ms: int = option(300_000, "after this time the client asks anew who leads what")
    retry_backoff_ms: int = option(50, "the first wait before a request is tried again")
    retry_backoff_max_ms: int = option(1_000, "the longest wait before a request is tried again")
    busy_poll_us: int = option(
        200, "how long the event loop stays awake after traffic, in microseconds; 0 sleeps at once"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "bootstrap_servers", parse_addresses(self.bootstrap_servers))
        self.require_positive("request_timeout_ms", "connect_timeout_ms", "metadata_max_age_ms")
        self.require_positive("retry_backoff_ms", "retry_backoff_max_ms")
        require(
            0 <= self.busy_poll_us <= BUSY_POLL_MAX_US, "busy_poll_us", self.busy_poll_us, f"0 to {BUSY_POLL_MAX_US}"
        )

    def require_positive(self, *names: str) -> None:
        for name in names:
            require(getattr(self, name) > 0, name, getattr(self, name), "a positive number")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return self.bootstrap_servers  # type: ignore[return-value]  # parsed in __post_init__


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What a producer can be told."""

    acks: str | int = option(
        "all", "who must have a record before it counts as sent: all, 1 (the leader) or 0 (nobody)"
    )
    linger_ms: float = option(0, "how long a record may wait for company; 0 sends as soon as the connection is free")
    batch_size: int = option(256 * 1024, "how many bytes of one partition travel together")
    max_request_size: int = option(8 * 1024 * 1024, "how many bytes one request may have")
    buffer_memory: int = option(64 * 1024 * 1024, "how many bytes may wait to be sent; then send() waits")
    max_block_ms: int = option(60_000, "how long send() waits for room or for a topic before it gives up")
    delivery_timeout_ms: int = option(120_000, "how long a record may be tried, all retries included")
    enable_idempotence: bool | None = option(
        None, "store every record once, however often it is sent; by default with acks=all and at most 5 in flight"
    )
    max_in_flight_requests_per_connection: int = option(5, "how many requests travel to one broker at once")
    compression_type: str | None = option(None, "none, gzip, snappy, lz4 or zstd")
    receipts: bool = option(
        False, "have every delivery tell leader, epoch, in-sync replicas and high watermark at the ack"
    )
    partitioner: str = option("round_robin", "where records without a key go: round_robin or sticky")
    on_delivery: OnDelivery | None = option(
        None, "called for each record when it is delivered or has failed: on_delivery(error or None, metadata)"
    )
    key_serializer: Serializer | None = option(None, "turns a key into bytes")
    value_serializer: Serializer | None = option(None, "turns a value into bytes")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "acks", parse_acks(self.acks))
        names = ["none", *(codec.name.lower() for codec in Codec if codec)]
        require((self.compression_type or "none") in names, "compression_type", self.compression_type, ", ".join(names))
        require(self.partitioner in ("round_robin", "sticky"), "partitioner", self.partitioner, "round_robin or sticky")
        self.require_positive("batch_size", "max_request_size", "buffer_memory", "delivery_timeout_ms", "max_block_ms")
        sizes = f"at most {MAX_REQUEST_SIZE_MAX}, which fits into a frame"
        require(self.max_request_size <= MAX_REQUEST_SIZE_MAX, "max_request_size", self.max_request_size, sizes)
        require(self.linger_ms >= 0, "linger_ms", self.linger_ms, "0 or more milliseconds")
        less = f"less than delivery_timeout_ms={self.delivery_timeout_ms}, or nothing would ever be sent in time"
        require(self.linger_ms < self.delivery_timeout_ms, "linger_ms", self.linger_ms, less)
        flight = self.max_in_flight_requests_per_connection
        require(flight > 0, "max_in_flight_requests_per_connection", flight, "1 or more")
        able = self.required_acks == ACKS_ALL and flight <= IDEMPOTENT_IN_FLIGHT_MAX
        allowed = f"it only with acks='all' and at most {IDEMPOTENT_IN_FLIGHT_MAX} requests in flight"
        require(able or not self.enable_idempotence, "enable_idempotence", self.enable_idempotence, allowed)

    @property
    def required_acks(self) -> int:
        return int(self.acks)

    @property
    def idempotent(self) -> bool:
        if self.enable_idempotence is None:
            flight = self.max_in_flight_requests_per_connection
            return self.required_acks == ACKS_ALL and flight <= IDEMPOTENT_IN_FLIGHT_MAX
        return self.enable_idempotence

    @property
    def codec(self) -> Codec:
        return Codec[(self.compression_type or "none").upper()]


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What a consumer can be told."""

    auto_offset_reset: str = option(
        "latest", "where to begin when no position is known: earliest, latest or none (an error)"
    )
    group_id: str = option(
        "", "the group that the consumer is a member of; empty: none, it reads all partitions by itself"
    )
    group_instance_id: str | None = option(
        None, "a name that this member keeps when it is started anew: so long its partitions wait for it"
    )
    session_timeout_ms: int = option(45_000, "a member that is not heard of for this long is out of its group")
    heartbeat_interval_ms: int = option(3_000, "how often a member says that it lives; a rebalance is heard of at once")
    max_poll_interval_ms: int = option(
        300_000, "a member that does not poll for this long leaves its group until it does"
    )
    partition_assignment_strategy: str | Sequence[str] = option(
        "cooperative-sticky",
        "how a group shares partitions: range, roundrobin, sticky or cooperative-sticky; several, by preference",
    )
    enable_auto_commit: bool = option(True, "in a group: commit what was polled before, now and then and when closing")
    auto_commit_interval_ms: int = option(5_000, "how often that is")
    fetch_min_bytes: int = option(1, "a broker answers a fetch once it has this many bytes")
    fetch_max_wait_ms: int = option(500, "a broker answers a fetch after this time in any case")
    fetch_max_bytes: int = option(50 * 1024 * 1024, "the most that one fetch brings")
    max_partition_fetch_bytes: int = option(1024 * 1024, "the most that one fetch brings of one partition")
    max_poll_records: int = option(500, "how many records poll() gives when it is not told")
    fetch_buffer_bytes: int = option(16 * 1024 * 1024, "how many bytes are fetched ahead of poll()")
    consumer_timeout_ms: float = option(float("inf"), "iterating ends when nothing came for this long")
    check_crcs: bool = option(True, "verify the checksum of every batch")
    key_deserializer: Deserializer | None = option(None, "turns a key's bytes into what you want")
    value_deserializer: Deserializer | None = option(None, "turns a value's bytes into what you want")
    on_deserialization_error: str | OnDeserializationError = option(
        "raise",
        "what a deserializer cannot read: raise, skip, or a function that is given the error, and then it is skipped",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        reset = self.auto_offset_reset
        require(reset in ("earliest", "latest", "none"), "auto_offset_reset", reset, "earliest, latest or none")
        unread = self.on_deserialization_error
        known = callable(unread) or unread in ("raise", "skip")
        require(known, "on_deserialization_error", unread, "raise, skip, or a function")
        self.require_positive("fetch_max_bytes", "max_partition_fetch_bytes", "max_poll_records", "fetch_buffer_bytes")
        self.require_positive(
            "consumer_timeout_ms", "session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms"
        )
        require(
            self.heartbeat_interval_ms < self.session_timeout_ms,
            "heartbeat_interval_ms",
            self.heartbeat_interval_ms,
            f"less than session_timeout_ms ({self.session_timeout_ms})",
        )
        require(self.auto_commit_interval_ms >= 0, "auto_commit_interval_ms", self.auto_commit_interval_ms, "0 or more")
        self._check_strategies()
        require(self.fetch_min_bytes >= 0, "fetch_min_bytes", self.fetch_min_bytes, "0 or more")
        require(self.fetch_max_wait_ms >= 0, "fetch_max_wait_ms", self.fetch_max_wait_ms, "0 or more milliseconds")

    def _check_strategies(self) -> None:
        given = self.partition_assignment_strategy
        names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
        known = ("range", "roundrobin", "sticky", "cooperative-sticky")
        allowed = bool(names) and all(name in known for name in names)
        require(allowed, "partition_assignment_strategy", given, f"some of {', '.join(known)}")
        object.__setattr__(self, "partition_assignment_strategy", tuple(names))

    @property
    def assignors(self) -> tuple[str, ...]:
        """The names in partition_assignment_strategy."""
        return self.partition_assignment_strategy  # type: ignore[return-value]  # parsed in __post_init__


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """What an admin can be told."""


OF_KAFKAS_CLIENTS = {
    "retries": "leave it out: a record is tried again until delivery_timeout_ms is over",
    "message_timeout_ms": "delivery_timeout_ms is what you mean",
    "transactional_id": "leave it out: there are no transactions yet",
    "isolation_level": "leave it out: there are no transactions yet",
    "api_version": "leave it out: clients and brokers agree by themselves",
    "group_protocol": "leave it out: groups of this client are classic ones",
    "security_protocol": "leave it out: there is no TLS and no SASL yet (docs/security.md)",
}
"""What people bring along from there and does not exist here, with what to do about it."""


def _hint_for_unknown(plain: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if plain.startswith(("ssl_", "sasl_")):
        plain = "security_protocol"
    if plain in OF_KAFKAS_CLIENTS:
        return OF_KAFKAS_CLIENTS[plain]
    near = difflib.get_close_matches(plain, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are: {', '.join(names)}"


def build(cls: type[C], options: Mapping[str, Any]) -> C:
    """A config from keyword arguments, or from Kafka's own names with dots; a name nobody knows is an error."""
    known = {f.name: f.type for f in fields(cls)}
    values = {}
    for name, value in options.items():
        plain = name.replace(".", "_")
        if plain not in known:
            hint = _hint_for_unknown(plain, known)
            raise ConfigError(f"unknown option {name!r}; {hint}", hint=hint)
        values[plain] = as_bool(name, known[plain], as_number(name, known[plain], value))
    return cls(**values)


def as_number(name: str, kind: object, value: Any) -> Any:
    """A number where one is wanted, though it may come as text, as out of a properties file."""
    if kind not in (int, float) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    try:
        return int(value) if kind is int else float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r} is not allowed; give a number") from None


def as_bool(name: str, kind: object, value: Any) -> Any:
    """True or False where one is wanted, though it may come as text, as out of a properties file."""
    if kind not in (bool, bool | None) or isinstance(value, bool) or (value is None and kind is not bool):
        return value
    found = {"true": True, "false": False}.get(str(value).strip().lower())
    if found is None:
        raise ConfigError(f"{name}={value!r} is not allowed; give True or False")
    return found


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{name}={value!r} is not allowed; give {allowed}")


def parse_acks(acks: str | int) -> int:
    parsed = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}.get(str(acks).lower())
    if parsed is None:
        raise ConfigError(f"acks={acks!r} is not allowed; give 'all', 1 or 0")
    return parsed


def parse_addresses(servers: str | Sequence[str] | Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """``host:port`` pairs from a comma list or a sequence; IPv6 hosts in brackets."""
    if not isinstance(servers, str | Sequence | Set):
        raise ConfigError(
            f"bootstrap_servers={servers!r} is not allowed", hint=f"give text, as '127.0.0.1:{DEFAULT_PORT}', or a list"
        )
    items: list[Any] = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_address(item) for item in items if not isinstance(item, str) or item.strip()]
    if not addresses:
        raise ConfigError("bootstrap_servers is empty", hint="give at least one host:port")
    return addresses


def _parse_address(item: Any) -> tuple[str, int]:
    if isinstance(item, tuple) and len(item) == 2:
        item = f"[{item[0]}]:{item[1]}" if ":" in str(item[0]) else f"{item[0]}:{item[1]}"
    if not isinstance(item, str):
        raise ConfigError(
            f"bootstrap server {item!r} is not host:port", hint=f"give text, as '127.0.0.1:{DEFAULT_PORT}'"
        )
    protocol, slashes, text = item.strip().rpartition("://")
    if slashes and protocol.upper() != "PLAINTEXT":
        raise ConfigError(f"bootstrap server {item!r}: there is no protocol {protocol}", hint=f"give {text!r}")
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or (host.startswith("[") and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if not port.isdigit() or not 0 < int(port) < 65536 or not host or "/" in host:
        raise ConfigError(f"bootstrap server {item!r} is not host:port")
    if host.isdigit():
        raise ConfigError(f"bootstrap server {item!r} has no host", hint=f"give '127.0.0.1:{host}' for this machine")
    return host.strip("[]"), int(port)
