"""``ottla produce``: write records, one per line of standard input."""

import sys
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import NotFound
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Timeout, parse_pair
from ottla.cli.output import note
from ottla.cli.topic import not_found
from ottla.wire.errors import ConfigError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.producing.delivery import RecordDelivery
    from ottla.client.records import RecordMetadata

_UNANSWERED_MAX = 20_000
"""How many records may be on their way before the oldest is waited for: an error is told soon, and memory is bounded."""

_REQUEST_MAX_MS = 30_000


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write.")],
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("-K", "--key-delimiter", metavar="TEXT", help="What stands between key and value of a line."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="KEY=VALUE", help="A header of every record.")
    ] = None,
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0, help="Write to this partition.")] = None,
    acks: Annotated[str, typer.Option("--acks", help="Who must have a record: all, 1 or 0.")] = "all",
    compression: Annotated[
        str, typer.Option("-z", "--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    value: Annotated[str | None, typer.Option("--value", help="Write this one record and read no input.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Write records, one per line of standard input, and wait until all are acknowledged."""
    if key is not None and key_delimiter is not None:
        raise ConfigError("-k and -K exclude each other")
    if key_delimiter == "":
        raise ConfigError("-K needs at least one character")
    headers = [(name, text.encode()) for name, text in (parse_pair(pair, "-H") for pair in header or [])]
    _check_topic(topic, partition, bootstrap, timeout)
    from ottla.client import Producer

    fixed_key = key.encode() if key is not None else None
    delimiter = key_delimiter.encode() if key_delimiter is not None else None
    unanswered: deque[RecordDelivery] = deque()
    count, last = 0, None
    timeout_ms = int(timeout * 1000)
    # The producer itself gives up in time: it knows what it waited for.
    options = {
        "bootstrap_servers": bootstrap, "client_id": CLIENT_ID, "acks": acks, "compression_type": compression,
        "max_block_ms": timeout_ms, "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": min(timeout_ms, _REQUEST_MAX_MS),
    }  # fmt: skip
    with Producer.from_config(options) as producer:
        for line in [value.encode()] if value is not None else _lines():
            line_key, line_value = split_key(line, delimiter) if delimiter is not None else (fixed_key, line)
            unanswered.append(
                producer.send(topic, line_value, key=line_key, headers=headers or None, partition=partition)
            )
            count += 1
            if len(unanswered) > _UNANSWERED_MAX:
                unanswered.popleft().result()
        while unanswered:
            last = unanswered.popleft().result()
    note(_summary(topic, count, last))


def split_key(line: bytes, delimiter: bytes) -> tuple[bytes, bytes]:
    """Key and value of a line; a line without the delimiter is a mistake that must not pass in silence."""
    key, found, value = line.partition(delimiter)
    if not found:
        raise ConfigError(f"line {line[:60]!r} has no key delimiter {delimiter.decode()!r}", hint="leave -K out")
    return key, value


def _lines() -> Iterable[bytes]:
    if sys.stdin.isatty():
        note("one record per line; Ctrl-D ends")
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")


def _check_topic(topic: str, partition: int | None, bootstrap: str, timeout_s: float) -> None:
    """A topic that is not there is told at once; the producer would wait for it to appear."""
    with open_admin(bootstrap, timeout_s) as admin:
        try:
            count = len(admin.describe_topic(topic, timeout=timeout_s).partitions)
        except UnknownTopicOrPartition as error:
            raise not_found(topic, admin.list_topics(timeout=timeout_s)) from error
    if partition is not None and partition >= count:
        raise NotFound(f"topic {topic} has no partition {partition}", hint=f"it has 0 to {count - 1}")


def _summary(topic: str, count: int, last: "RecordMetadata | None") -> str:
    if count == 1 and last is not None and last.offset >= 0:
        return f"wrote 1 record to {topic}[{last.partition}]@{last.offset}"
    return f"wrote {count} record{'' if count == 1 else 's'} to {topic}"
