"""``ottla produce``: write records: lines of standard input, JSON, or files."""

import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import NotFound, topic_not_found
from ottla.cli.inputs import Input, Shape, files_of, parse_shape, records_of
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Timeout, parse_pair
from ottla.cli.output import note
from ottla.wire.errors import ConfigError, OttlaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.producing.delivery import RecordDelivery
    from ottla.client.records import RecordMetadata

_UNANSWERED_MAX = 20_000
"""How many records may be on their way before the oldest is waited for: an error is told soon, and memory is bounded."""

_REQUEST_MAX_MS = 30_000
_PROGRESS_S = 5.0


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write.")],
    file: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="Each file is the value of one record.")
    ] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("-K", "--key-delimiter", metavar="TEXT", help="What stands between key and value of a line."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("-D", "--delimiter", metavar="TEXT", help="What ends a record; \\n, \\0 and \\xNN are known.")
    ] = "\\n",
    null: Annotated[
        bool, typer.Option("-Z", "--null", help="An empty value, or key, is null: a tombstone.")
    ] = False,
    input_format: Annotated[
        str | None,
        typer.Option(
            "-f", "--format", metavar="json",
            help="Lines are what `consume -f json` prints; topic, partition and offset are not looked at.",
        ),
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
) -> None:  # fmt: skip
    """Write records, one per line of standard input or one per FILE, and wait until all are acknowledged."""
    if key is not None and (key_delimiter is not None or input_format is not None):
        raise ConfigError("-k excludes -K and -f json")
    if value is not None and file:
        raise ConfigError("--value and FILE exclude each other")
    shape = parse_shape(delimiter, key_delimiter, input_format, null_if_empty=null)
    headers = [(name, text.encode()) for name, text in (parse_pair(pair, "-H") for pair in header or [])]
    _check_topic(topic, partition, bootstrap, timeout)
    timeout_ms = int(timeout * 1000)
    # The producer itself gives up in time: it knows what it waited for.
    options = {
        "bootstrap_servers": bootstrap, "client_id": CLIENT_ID, "acks": acks, "compression_type": compression,
        "max_block_ms": timeout_ms, "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": min(timeout_ms, _REQUEST_MAX_MS),
    }  # fmt: skip
    fixed_key = key.encode() if key is not None else None
    inputs = _inputs(value, file or [], shape)
    if fixed_key is not None or headers:
        inputs = (_with(each, fixed_key, headers) for each in inputs)
    _Writing(topic, partition).run(options, inputs)


class _Writing:
    """Sends the records, and knows at any time how many are acknowledged."""

    def __init__(self, topic: str, partition: int | None) -> None:
        self._topic = topic
        self._partition = partition
        self._sent: deque[tuple[str, RecordDelivery]] = deque()
        self._written = 0
        self._last: RecordMetadata | None = None

    def run(self, options: dict[str, object], inputs: Iterator[Input]) -> None:
        from ottla.client import Producer

        # What failed is told here, with the place in the input.
        logging.getLogger("ottla.client.producing.undelivered").setLevel(logging.ERROR)
        tell_at = time.monotonic() + _PROGRESS_S
        try:
            with Producer.from_config(options) as producer:
                for each in inputs:
                    sent = producer.send(
                        self._topic, each.value, key=each.key, headers=each.headers, partition=self._partition,
                        timestamp_ms=each.timestamp_ms,
                    )  # fmt: skip
                    self._sent.append((each.place, sent))
                    if len(self._sent) > _UNANSWERED_MAX:
                        self._take()
                    if time.monotonic() > tell_at:
                        tell_at = self._tell_progress()
                while self._sent:
                    self._take()
        except OttlaError as error:
            self._take_done()
            raise _with_count(error, self._written, self._topic) from None
        except KeyboardInterrupt:
            self._take_done()
            note(f"interrupted: wrote {_records(self._written)} to {self._topic}")
            raise
        if self._written == 1 and self._last is not None and self._last.offset >= 0:
            note(f"wrote 1 record to {self._topic}[{self._last.partition}]@{self._last.offset}")
        else:
            note(f"wrote {_records(self._written)} to {self._topic}")

    def _take(self) -> None:
        """Wait for the oldest."""
        place, sent = self._sent[0]
        try:
            self._last = sent.result()
        except OttlaError as error:
            raise type(error)(f"{place}: {error}", topic=error.topic, partition=error.partition) from None
        self._sent.popleft()
        self._written += 1

    def _take_done(self) -> None:
        """Those behind one that failed may be written all the same."""
        self._written += sum(1 for _, sent in self._sent if sent.done() and sent.exception() is None)

    def _tell_progress(self) -> float:
        if sys.stderr.isatty():
            note(f"{_records(self._written)} so far")
        return time.monotonic() + _PROGRESS_S


def _inputs(value: str | None, files: list[Path], shape: Shape) -> Iterator[Input]:
    if value is not None:
        return iter([Input("--value", value.encode() or (None if shape.null_if_empty else b""))])
    if files:
        return files_of(files, shape)
    if sys.stdin.isatty():
        note("one record per line; Ctrl-D ends")
    return records_of(sys.stdin.buffer, shape)


def _with(each: Input, key: bytes | None, headers: list[tuple[str, bytes]]) -> Input:
    own = each.headers or []
    return each._replace(key=each.key if key is None else key, headers=[*own, *headers] or None)


def _with_count(error: OttlaError, written: int, topic: str) -> OttlaError:
    told = type(error)(f"{error}; {_records(written)} were written to {topic}")
    told.hint = error.hint
    return told


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _check_topic(topic: str, partition: int | None, bootstrap: str, timeout_s: float) -> None:
    """A topic that is not there is told at once; the producer would wait for it to appear."""
    with open_admin(bootstrap, timeout_s) as admin:
        try:
            count = len(admin.describe_topic(topic, timeout=timeout_s).partitions)
        except UnknownTopicOrPartition as error:
            raise topic_not_found(topic, admin.list_topics(timeout=timeout_s)) from error
    if partition is not None and partition >= count:
        raise NotFound(f"topic {topic} has no partition {partition}", hint=f"it has 0 to {count - 1}")
