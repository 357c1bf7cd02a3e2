"""``kafka.*`` options: those of our client, those of Kafka's own that mean nothing here, and those that nobody knows. Pure."""

import difflib
import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ottla.client.config import ClientConfig, ConsumerConfig, build
from ottla.wire.errors import ConfigError

logger = logging.getLogger(__name__)

ClientOptions = tuple[tuple[str, Any], ...]
"""Settings of a client, checked, in an order of their own: so that equal ones find the same connections."""

OURS_TO_DECIDE = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "enable.auto.commit": "Spark's checkpoint has the progress; give groupId to have it committed to the cluster, too",
    "key.deserializer": "keys are binary; cast or parse the column key",
    "value.deserializer": "values are binary; cast or parse the column value",
    "key.serializer": "keys are binary; make the column key what you want to write",
    "value.serializer": "values are binary; make the column value what you want to write",
    "interceptor.classes": "there are no interceptors",
}

WITHOUT_MEANING = frozenset((
    "allow.auto.create.topics", "client.dns.lookup", "client.rack", "connections.max.idle.ms",
    "default.api.timeout.ms", "exclude.internal.topics", "fetch.min.bytes", "fetch.max.wait.ms", "group.protocol",
    "heartbeat.interval.ms", "isolation.level", "max.poll.interval.ms", "max.poll.records",
    "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "security.protocol", "send.buffer.bytes", "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "auto.commit.interval.ms",
    "group.instance.id", "enable.metrics.push", "auto.include.jmx.reporter", "security.providers",
    "metadata.max.idle.ms", "retries", "transaction.timeout.ms", "partitioner.ignore.keys",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
))  # fmt: skip
"""What Kafka's client knows and ours does not, or has no use for here: said once, and passed over."""

DEFAULTS: dict[str, Any] = {"max_partition_fetch_bytes": 2 * 1024 * 1024, "busy_poll_us": 0}
"""Where a task differs from a consumer: it reads one partition as fast as it can, and its core has other things to do."""


def client_options(
    kafka: Mapping[str, str],
    *,
    bootstrap: str | None,
    required: bool = True,
    config: type[ClientConfig] = ConsumerConfig,
    defaults: Mapping[str, Any] = DEFAULTS,
) -> ClientOptions:
    """What a client is told, of the options that began with ``kafka.``, here without that."""
    own = {field.name: field.name.replace("_", ".") for field in fields(config)}
    told: dict[str, Any] = dict(defaults)
    passed_over = []
    for name, value in sorted(kafka.items()):
        plain = name.replace(".", "_")
        if name in OURS_TO_DECIDE:
            raise ConfigError(f"option kafka.{name} cannot be set: {OURS_TO_DECIDE[name]}")
        if name == "security.protocol" and value.strip().upper() != "PLAINTEXT":
            raise ConfigError(
                f"option kafka.security.protocol={value!r} is not supported; give PLAINTEXT or leave it out"
            )
        if name in WITHOUT_MEANING:
            passed_over.append(f"kafka.{name}")
        elif plain in own:
            told[plain] = value
        else:
            near = difflib.get_close_matches(name, [*own.values(), *WITHOUT_MEANING], n=1)
            hint = f"did you mean kafka.{near[0]}?" if near else "the client has no such setting; leave it out"
            raise ConfigError(f"unknown option kafka.{name}={value!r}; {hint}")
    if passed_over:
        logger.warning("options without a meaning here: %s", ", ".join(passed_over))
    _bootstrap(told, bootstrap, required)
    told.pop("group_id", None)  # it commits; it does not join
    try:
        build(config, told)
    except ConfigError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise ConfigError(f"option kafka.*: {error}{hint}") from None
    return tuple(sorted(told.items()))


def _bootstrap(told: dict[str, Any], own: str | None, required: bool) -> None:
    kafkas = told.get("bootstrap_servers")
    if own is not None and kafkas is not None and own != kafkas:
        raise ConfigError(f"options bootstrap.servers={own!r} and kafka.bootstrap.servers={kafkas!r} differ; give one")
    servers = own or kafkas
    if servers is None and required:
        raise ConfigError(
            "option kafka.bootstrap.servers is missing; give the brokers to ask first, such as '127.0.0.1:9092'"
        )
    if servers is not None:
        told["bootstrap_servers"] = servers
