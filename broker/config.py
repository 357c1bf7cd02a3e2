"""What a broker can be told, under Kafka's property names.

Defaults, then a properties file, then the environment (OTTLA_BROKER_ID), then flags (-o broker.id=1): the later wins.
Every field carries its help text; docs/configuration.md is made from it.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ottla.broker.listeners import Listeners, parse_address, parse_listeners
from ottla.net.busy_poll import BUSY_POLL_MAX_US
from ottla.net.limits import Limits
from ottla.wire.errors import ConfigError
from ottla.wire.names import BROKER_ID_MAX, SEGMENT_BYTES_MIN
from ottla.zk.access import Digest, read_digest

ENVIRONMENT_PREFIX = "OTTLA_"

ALIASES = {"log.dir": "log.dirs"}
"""Kafka's older names; where both are given the newer counts."""


def setting(default: Any, text: str, *, secret: bool = False, running: bool = False) -> Any:
    """A field of the config: its default and what it is for; a secret one is not shown with the others.

    ``running``: it can be changed while the broker runs (dynamic_config.py says what is allowed then).
    """
    return field(default=default, metadata={"help": text, "running": running}, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """One broker's settings."""

    broker_id: int = setting(-1, "this broker's number, unlike all others'; must be given")
    zookeeper_connect: str = setting(
        "127.0.0.1:2181", "the ZooKeeper servers, with an optional chroot: host:2181,host:2181/path"
    )
    zookeeper_session_timeout_ms: int = setting(
        6_000, "how long ZooKeeper waits for a silent broker; less than replica.lag.time.max.ms"
    )
    zookeeper_connection_timeout_ms: int = setting(15_000, "how long the first connection to ZooKeeper may take")
    zookeeper_digest: str = setting(
        "",
        "this cluster's user:password in ZooKeeper, the same for all brokers; rather than here it stands in a file",
        secret=True,
    )
    zookeeper_digest_file: str = setting("", "a file with zookeeper.digest as its only line")
    zookeeper_set_acl: bool = setting(
        False,
        "whether what brokers write in ZooKeeper is closed to all but that user (others may read, but for the secret);"
        " docs/security.md says how to get there",
    )
    listeners: str = setting(
        "PLAINTEXT://127.0.0.1:9092",
        "where to listen: NAME://host:port, or several with commas between them; port 0 takes a free one",
    )
    advertised_listeners: str = setting(
        "",
        "where others find this broker, if not at listeners; the same names. A client is told the addresses of the"
        " listener that it came through",
    )
    inter_broker_listener_name: str = setting("", "the listener that brokers use among each other; the first if empty")
    listener_security_protocol_map: str = setting(
        "", "NAME:PLAINTEXT for each listener, as in Kafka; there is no other protocol"
    )
    admin_listener: str = setting(
        "http://127.0.0.1:8092", "where health and metrics are served; port 0 takes a free one"
    )
    broker_rack: str = setting("", "the rack this broker stands in")
    log_dirs: str = setting(
        "~/.local/share/ottla/logs",
        "folders for the data, separated by commas; ~ is the home of the user that the broker runs as",
    )
    log_segment_bytes: int = setting(1024**3, "a segment of a log is at most this large", running=True)
    log_segment_bytes_min: int = setting(
        SEGMENT_BYTES_MIN,
        "the smallest segment.bytes and log.segment.bytes that a request may set, as the controller has it; smaller values"
        " that are stored already stay in force",
    )
    log_roll_ms: int = setting(7 * 24 * 3600 * 1000, "a segment of a log spans at most this time", running=True)
    log_retention_ms: int = setting(
        7 * 24 * 3600 * 1000, "records older than this may be deleted; -1 keeps them", running=True
    )
    log_retention_bytes: int = setting(
        -1, "a partition larger than this loses its oldest segments; -1 keeps them", running=True
    )
    log_retention_check_interval_ms: int = setting(300_000, "how often retention is looked after")
    log_index_interval_bytes: int = setting(4096, "an index entry for each so many bytes of a log", running=True)
    log_message_timestamp_after_max_ms: int = setting(
        3600 * 1000, "how far ahead of this broker's clock a producer's timestamp may be", running=True
    )
    log_message_timestamp_before_max_ms: int = setting(
        2**63 - 1, "how far behind this broker's clock a producer's timestamp may be", running=True
    )
    log_message_timestamp_type: str = setting(
        "CreateTime", "whose clock times records: CreateTime or LogAppendTime", running=True
    )
    log_flush_policy: str = setting(
        "os", "os: the kernel writes to disk when it likes; durable: acks wait for fdatasync", running=True
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(60_000, "how often recovery points are written")
    message_max_bytes: int = setting(1024 * 1024 + 12, "the largest record batch", running=True)
    auto_create_topics_enable: bool = setting(
        True,
        "whether topics that do not exist are made for Kafka's clients that ask for them; ours never ask so",
        running=True,
    )
    num_partitions: int = setting(1, "how many partitions a topic has whose creator does not say", running=True)
    default_replication_factor: int = setting(
        1, "how many replicas a topic has whose creator does not say", running=True
    )
    min_insync_replicas: int = setting(
        1, "how many replicas must have a record before acks=all is answered", running=True
    )
    leader_replication_throttled_rate: int = setting(
        2**63 - 1, "stored and returned, but not enforced: Kafka's tools set it while they move replicas", running=True
    )
    follower_replication_throttled_rate: int = setting(2**63 - 1, "likewise", running=True)
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(2**63 - 1, "likewise", running=True)
    replica_lag_time_max_ms: int = setting(10_000, "a follower that has not caught up for this long is out of sync")
    controlled_shutdown_max_retries: int = setting(
        3, "how often a broker that stops asks again to be relieved of what it leads, before it stops all the same"
    )
    leader_imbalance_check_interval_seconds: int = setting(
        300, "how often leadership is given back to preferred leaders that are in sync"
    )
    group_max_size: int = setting(1000, "how many members a consumer group may have", running=True)
    group_initial_rebalance_delay_ms: int = setting(
        0, "how long an empty group waits for more members before its first generation begins"
    )
    group_min_session_timeout_ms: int = setting(
        6000, "the shortest session.timeout.ms that members may ask for", running=True
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "the longest session.timeout.ms that members may ask for", running=True
    )
    group_consumer_max_size: int = setting(
        1000, "how many members a group may have whose coordinator assigns (group.protocol=consumer)", running=True
    )
    group_consumer_session_timeout_ms: int = setting(
        45_000, "after how long without a heartbeat a member of such a group is out", running=True
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5000, "how often members of such a group send heartbeats", running=True
    )
    offset_metadata_max_bytes: int = setting(
        4096, "the longest text that may be committed with an offset", running=True
    )
    offsets_retention_minutes: int = setting(
        7 * 24 * 60, "how long the offsets of a group are kept that has no members and commits nothing", running=True
    )
    offsets_retention_check_interval_ms: int = setting(600_000, "how often groups that nobody uses are looked for")
    named_write_expiration_ms: int = setting(
        7 * 24 * 3600 * 1000, "how long a named write (a Spark sink's) that nobody goes on with is remembered"
    )
    producer_id_expiration_ms: int = setting(
        24 * 3600 * 1000, "how long a partition remembers an idempotent producer that sends nothing"
    )
    producer_state_max_bytes: int = setting(
        64 * 1024 * 1024,
        "memory for what all partitions remember of idempotent producers; beyond it those that were silent for longest are"
        " evicted, and refused with UNKNOWN_PRODUCER_ID if they return",
    )
    socket_request_max_bytes: int = setting(100 * 1024 * 1024, "the longest request")
    queued_max_request_bytes: int = setting(512 * 1024 * 1024, "memory for requests that have arrived in part")
    queued_max_response_bytes: int = setting(
        512 * 1024 * 1024,
        "memory for answers that clients have not read yet; beyond it those that have not read for longest are cut off",
    )
    socket_busy_poll_us: int = setting(200, "how long to stay awake after traffic, in microseconds; 0 sleeps at once")
    max_connections: int = setting(10_000, "how many connections may be open")
    max_connections_per_ip: int = setting(5_000, "how many connections may be open from one address")
    connections_max_idle_ms: int = setting(600_000, "a connection that is silent for this long is closed")
    connection_handshake_timeout_ms: int = setting(10_000, "a new connection must have sent its first request by then")
    connection_frame_timeout_ms: int = setting(30_000, "a request must have arrived whole by then")

    def __post_init__(self) -> None:
        _require(
            0 <= self.broker_id <= BROKER_ID_MAX, "broker.id", self.broker_id, f"a number from 0 to {BROKER_ID_MAX}"
        )
        lag, session = self.replica_lag_time_max_ms, self.zookeeper_session_timeout_ms
        # A leader that is cut off would else throw its followers out of the ISR before its own session dies, and then
        # only the dead leader could be elected (KIP-537).
        _require(
            0 < session < lag,
            "zookeeper.session.timeout.ms",
            session,
            f"a number below replica.lag.time.max.ms ({lag})",
        )
        self._check_digest()
        _require(bool(self.data_folders), "log.dirs", self.log_dirs, "at least one folder")
        _require(
            self.log_flush_policy in ("os", "durable"),
            "log.flush.policy",
            self.log_flush_policy,
            "os or durable",
        )
        retries = self.controlled_shutdown_max_retries
        _require(retries >= 0, "controlled.shutdown.max.retries", retries, "0 or more")
        for name in (
            "log_segment_bytes", "log_segment_bytes_min", "message_max_bytes", "min_insync_replicas",
            "socket_request_max_bytes", "queued_max_response_bytes", "num_partitions",
            "default_replication_factor", "named_write_expiration_ms",
            "producer_id_expiration_ms", "producer_state_max_bytes",
        ):  # fmt: skip
            _require(getattr(self, name) > 0, property_name(name), getattr(self, name), "a positive number")
        busy = self.socket_busy_poll_us
        _require(0 <= busy <= BUSY_POLL_MAX_US, "socket.busy.poll.us", busy, f"0 to {BUSY_POLL_MAX_US}")
        self.all_listeners()
        parse_address("admin.listener", self.admin_listener)

    def _check_digest(self) -> None:
        if self.zookeeper_digest and self.zookeeper_digest_file:
            raise ConfigError(
                "both zookeeper.digest and zookeeper.digest.file are set",
                hint="keep the file, and nothing is to be seen",
            )
        if self.zookeeper_digest:
            Digest(self.zookeeper_digest)
        elif self.zookeeper_set_acl and not self.zookeeper_digest_file:
            raise ConfigError(
                "zookeeper.set.acl=true needs somebody whom znodes belong to",
                hint="name a file that has user:password in its only line with zookeeper.digest.file",
            )

    def read_zookeeper_digest(self) -> Digest | None:
        """Who this broker is in ZooKeeper; None: nobody in particular."""
        if self.zookeeper_digest_file:
            return read_digest(Path(self.zookeeper_digest_file))
        return Digest(self.zookeeper_digest) if self.zookeeper_digest else None

    @property
    def data_folders(self) -> list[Path]:
        try:
            return [Path(part.strip()).expanduser() for part in self.log_dirs.split(",") if part.strip()]
        except RuntimeError as error:
            raise ConfigError(f"log.dirs={self.log_dirs} cannot be found: {error}", hint="give a path from /") from None

    def all_listeners(self) -> Listeners:
        return parse_listeners(
            self.listeners,
            self.advertised_listeners,
            self.inter_broker_listener_name,
            self.listener_security_protocol_map,
        )

    def limits(self) -> Limits:
        return Limits(
            frame_max=self.socket_request_max_bytes,
            pending_frames_bytes=self.queued_max_request_bytes,
            unsent_bytes=self.queued_max_response_bytes,
            connections=self.max_connections,
            connections_per_ip=self.max_connections_per_ip,
            idle_s=self.connections_max_idle_ms / 1000,
            first_frame_s=self.connection_handshake_timeout_ms / 1000,
            frame_s=self.connection_frame_timeout_ms / 1000,
        )


def property_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def known_properties() -> dict[str, type]:
    """Every property, with its type."""
    return {property_name(f.name): f.type if isinstance(f.type, type) else str for f in fields(BrokerConfig)}


def load(
    path: Path | None, environment: Mapping[str, str], flags: Iterable[str] = ()
) -> tuple[BrokerConfig, list[str]]:
    """The config from all its sources, and the names in the file that nobody knows (Kafka ignores them, so do we)."""
    known = known_properties()
    values: dict[str, str] = {}
    unknown: list[str] = []
    if path is not None:
        for given, value in read_properties(path).items():
            key = ALIASES.get(given, given)
            if key in known and (key == given or key not in values):
                values[key] = value
            else:
                unknown.append(key)
    for key in known:
        name = ENVIRONMENT_PREFIX + key.replace(".", "_").upper()
        if name in environment:
            values[key] = environment[name]
    for flag in flags:
        key, equals, value = flag.partition("=")
        key = ALIASES.get(key.strip(), key.strip())
        if not equals:
            raise ConfigError(f"-o {_name_of(flag)!r}... is not key=value")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(f"unknown property {key!r}", hint=f"did you mean {near[0]}?" if near else None)
        values[key] = value.strip()
    return BrokerConfig(
        **{key.replace(".", "_"): _convert(key, known[key], value) for key, value in values.items()}
    ), unknown


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file: ``key=value`` lines, comments after ``#``, ``!`` or ``//`` at the start of a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no properties file: it is not text") from None
    found: dict[str, str] = {}
    joined = re.sub(r"\\\n[ \t]*", "", text)
    for number, line in enumerate(joined.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!", "//")):
            continue
        match = re.match(r"([^=:\s]+)\s*[=:]\s*(.*)", stripped)
        if match is None:
            raise ConfigError(f"{path}, line {number}: {_name_of(stripped)!r}... is not key=value")
        found[match[1]] = match[2].strip()
    return found


def _name_of(line: str) -> str:
    """What seems to be the key: the rest may be a password."""
    return re.split(r"[^\w.-]", line, maxsplit=1)[0]


def _convert(key: str, kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}={text!r} is not allowed; give true or false")
        return text.lower() == "true"
    if kind is not int:
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{key}={text!r} is not allowed; give a whole number") from None


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{name}={value} is not allowed; give {allowed}")
