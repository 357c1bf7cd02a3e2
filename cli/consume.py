"""``ottla consume``: read records."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import NotFound, Terminated, ended_by_sigterm, topic_not_found
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Timeout
from ottla.cli.output import flush, note, write
from ottla.cli.records import VERBS_HELP, record_printer
from ottla.cli.start_offsets import Origin, Start, outside_the_log, parse_start, parse_starts, start_offsets
from ottla.wire.errors import ConfigError, UnknownTopicOrPartition
from ottla.wire.names import TopicPartition

if TYPE_CHECKING:
    from ottla.client import Consumer, Record

_POLL_S = 0.5
_POLL_RECORDS = 5_000


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="What to read.")],
    offset: Annotated[
        str,
        typer.Option(
            "-o",
            "--offset",
            metavar="START",
            help="Where to begin: earliest, latest, OFFSET, -N (the last N), @TIME (ms, ISO or -15m), or PARTITION:OFFSET,...; "
            "earliest unless told.",
        ),
    ] = "",
    group: Annotated[
        str | None,
        typer.Option("-g", "--group", help="Read as a member of this group: its share, from where it committed."),
    ] = None,
    count: Annotated[int | None, typer.Option("-n", "--count", min=0, help="End after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Read this partition only; may come again.")
    ] = None,
    until: Annotated[
        str,
        typer.Option("-u", "--until", metavar="END", help="End there, as -o names places; what is at END is not read."),
    ] = "",
    record_format: Annotated[
        str, typer.Option("-f", "--format", metavar="FORMAT", help=f"How to print a record: json, or {VERBS_HELP}.")
    ] = "%v\\n",
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit", help="End when all that is there now was read.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Read records and print each; goes on until Ctrl-C or SIGTERM unless told when to end."""
    if until and group is not None:
        raise ConfigError("-u and -g exclude each other", hint="-e ends a member when it has nothing more to read")
    if partition and group is not None:
        raise ConfigError("-p and -g exclude each other", hint="a group says which partitions its members read")
    reading = Reading(topics, count, record_printer(record_format), bootstrap, timeout, exit_at_end or bool(until))
    with ended_by_sigterm():
        if group is not None:
            _consume_as_member(reading, group, offset)
        else:
            _consume_alone(reading, partition or [], offset, until)


@dataclass(frozen=True)
class Reading:
    """What to read, how to print it, and when to end."""

    topics: list[str]
    count: int | None
    printer: "Callable[[Record], bytes]"
    bootstrap: str
    timeout_s: float
    ends: bool


def _consume_alone(reading: Reading, partitions: list[int], offset: str, until: str) -> None:
    start, single = parse_starts(offset or "earliest")
    end = parse_start(until, "-u") if until else Start(Origin.LATEST)
    if single and partitions:
        raise ConfigError("-p and -o PARTITION:OFFSET exclude each other")
    places = _find_partitions(reading, partitions or sorted(single))
    if reading.count == 0:
        return
    from ottla.client import Consumer

    with Consumer(bootstrap_servers=reading.bootstrap, client_id=CLIENT_ID) as consumer:
        timeout_s = reading.timeout_s
        earliest = consumer.beginning_offsets(places, timeout=timeout_s)
        latest = consumer.end_offsets(places, timeout=timeout_s)
        wanted = {where: start or single[where.partition] for where in places}
        if outside := outside_the_log(wanted, earliest, latest):
            note(outside)
        begin = start_offsets(consumer, wanted, earliest, latest, timeout_s)
        ends = start_offsets(consumer, end, earliest, latest, timeout_s)
        for where, first in begin.items():
            consumer.seek(where.topic, where.partition, first)
        consumer.assign(places)
        batches = _until_end(consumer, begin, ends) if reading.ends else _for_ever(consumer)
        _print(_first(batches, reading.count), reading.printer)


def _consume_as_member(reading: Reading, group: str, offset: str) -> None:
    """What was printed is committed; whoever begins in a group where nothing was committed begins at ``offset``."""
    if offset not in ("", "earliest", "latest"):
        raise ConfigError(f"-o {offset} in a group", hint="earliest or latest; `ottla group reset` moves a group")
    _find_partitions(reading, [])
    if reading.count == 0:
        return
    from ottla.client import Consumer

    with Consumer(
        bootstrap_servers=reading.bootstrap,
        client_id=CLIENT_ID,
        group_id=group,
        auto_offset_reset="latest" if offset == "latest" else "earliest",
        enable_auto_commit=False,
    ) as consumer:

        def commit(printed: "list[Record]") -> None:
            last = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in printed}
            consumer.commit(last, timeout=reading.timeout_s)

        consumer.subscribe(reading.topics)
        batches = _until_idle(consumer, reading.timeout_s) if reading.ends else _for_ever(consumer)
        _print(_first(batches, reading.count), reading.printer, commit)


def _print(
    batches: "Iterator[list[Record]]",
    printer: "Callable[[Record], bytes]",
    on_printed: "Callable[[list[Record]], None]" = lambda records: None,
) -> None:
    """Print them all; who is interrupted tells how many there were."""
    printed = 0
    try:
        for taken in batches:
            lines = b"".join(map(printer, taken))
            printed += len(taken)  # before anybody can see them
            write(lines)
            flush()
            if taken:
                on_printed(taken)
    except (KeyboardInterrupt, Terminated):
        note(f"interrupted: read {printed} record{'' if printed == 1 else 's'}")
        raise


def _first(batches: "Iterator[list[Record]]", count: int | None) -> "Iterator[list[Record]]":
    left = count
    for records in batches:
        taken = records if left is None else records[:left]
        yield taken
        if left is not None:
            left -= len(taken)
            if left == 0:
                return


def _until_idle(consumer: "Consumer", timeout_s: float) -> "Iterator[list[Record]]":
    """Until this member has nothing more to read of what it was given."""
    deadline = time.monotonic() + timeout_s
    while True:
        records = consumer.poll(_POLL_S, _POLL_RECORDS)
        yield records
        mine = consumer.assignment()
        if not records and (mine or time.monotonic() > deadline):
            ends = consumer.end_offsets(mine)
            if all(consumer.position(*where) >= end for where, end in ends.items()):
                return


def _find_partitions(reading: Reading, wanted: list[int]) -> "list[TopicPartition]":
    places = []
    timeout_s = reading.timeout_s
    with open_admin(reading.bootstrap, timeout_s) as admin:
        for name in dict.fromkeys(reading.topics):
            try:
                known = [p.partition for p in admin.describe_topic(name, timeout=timeout_s).partitions]
            except UnknownTopicOrPartition as error:
                raise topic_not_found(name, admin.list_topics(timeout=timeout_s)) from error
            for missing in set(wanted) - set(known):
                raise NotFound(f"topic {name} has no partition {missing}", hint=f"it has 0 to {len(known) - 1}")
            places += [TopicPartition(name, number) for number in known if not wanted or number in wanted]
    return places


def _for_ever(consumer: "Consumer") -> "Iterator[list[Record]]":
    while True:
        yield consumer.poll(_POLL_S, _POLL_RECORDS)


def _until_end(
    consumer: "Consumer", begin: "Mapping[TopicPartition, int]", end: "Mapping[TopicPartition, int]"
) -> "Iterator[list[Record]]":
    """Polls until every partition was read up to where it ended at the beginning; nothing behind that is given."""
    waiting = {(where.topic, where.partition) for where, first in begin.items() if first < end[where]}
    ends = {(where.topic, where.partition): offset for where, offset in end.items()}
    while waiting:
        records = consumer.poll(_POLL_S, _POLL_RECORDS)
        yield [record for record in records if record.offset < ends[record.topic, record.partition]]
        # Asked, not counted: a log may have gaps, and its last offset may be one.
        waiting = {place for place in waiting if consumer.position(*place) < ends[place]}
