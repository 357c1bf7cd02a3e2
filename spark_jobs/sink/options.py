"""The options of ``format("ottla")`` for writing: those of Spark's Kafka sink, and how often a row may be stored. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.config import ProducerConfig
from ottla.spark_jobs.client_options import ClientOptions, client_options
from ottla.spark_jobs.given_options import GivenOptions
from ottla.wire.errors import ConfigError, InvalidTopic
from ottla.wire.names import check_topic_name

WRITE_OPTIONS = (
    "bootstrap.servers", "topic", "exactlyOnce", "writeId", "keepOrder", "sortMemory", "includeHeaders",
    "checkpointLocation", "path",
)  # fmt: skip
"""All but ``kafka.*``, which are the client's. The last three are Spark's own, or have no meaning here."""

SORT_MEMORY = 128 * 1024 * 1024
SORT_MEMORY_MIN = 1024 * 1024

DEFAULTS = {"batch_size": 256 * 1024, "busy_poll_us": 0}


@dataclass(frozen=True)
class SinkOptions:
    """What a write was told, checked. Goes to the executors as it is."""

    client: ClientOptions
    topic: str | None = None
    exactly_once: bool = True
    write_id: str | None = None
    keep_order: bool = False
    sort_memory: int = SORT_MEMORY


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """All options of a write; ConfigError for the first that is wrong."""
    options = GivenOptions(given, WRITE_OPTIONS)
    options.refuse_unknown()
    exactly_once, write_id = options.boolean("exactlyOnce", True), options.get("writeId")
    kafka = options.kafka()
    if write_id is not None:
        _check_write_id(write_id, exactly_once, streaming)
    acks = kafka.get("acks", "all").strip().lower()
    if acks not in ("all", "-1") and (exactly_once or acks == "0"):
        allowed = "all, or 1 with exactlyOnce=false"
        raise ConfigError(f"option kafka.acks={kafka['acks']!r} is not allowed; give {allowed}")
    return SinkOptions(
        client=client_options(
            kafka, bootstrap=options.get("bootstrap.servers"), config=ProducerConfig, defaults=DEFAULTS
        ),
        topic=_topic(options.get("topic")),
        exactly_once=exactly_once,
        write_id=write_id,
        keep_order=options.boolean("keepOrder", False),
        sort_memory=options.bytes("sortMemory", SORT_MEMORY, least=SORT_MEMORY_MIN),
    )


def _check_write_id(write_id: str, exactly_once: bool, streaming: bool) -> None:
    if streaming:
        raise ConfigError(f"option writeId={write_id!r} is for a batch only; a stream is known by its checkpoint")
    if not exactly_once:
        raise ConfigError(f"option writeId={write_id!r} has no meaning with exactlyOnce=false; leave one of them out")
    if not 0 < len(write_id) <= 150:
        raise ConfigError(f"option writeId={write_id[:40]!r} is not allowed; give 1 to 150 characters")


def _topic(topic: str | None) -> str | None:
    try:
        return check_topic_name(topic) if topic is not None else None
    except InvalidTopic as error:
        raise ConfigError(f"option topic: {error}") from None
