"""``ottla topic``: create, list, describe, alter, delete topics, and delete records of them."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import topic_not_found
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout, parse_pair
from ottla.cli.output import OutputFormat, Table, flush, note, show, write_line
from ottla.cli.places import places_named
from ottla.cli.start_offsets import parse_start, start_offsets
from ottla.wire.errors import ConfigError, OttlaError, TopicAlreadyExists, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.wire.requests import PartitionMetadata, TopicMetadata

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None)

MOVES_TIMEOUT_S = 5.0
PARTITION_COLUMNS = ("Partition", "Leader", "Replicas", "Isr", "Elr", "Lost", "Moving")
Moving = Mapping[tuple[str, int], str]

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The topics' names.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic's name.")]


@app.command()
def create(
    names: Names,
    partitions: Annotated[int, typer.Option("-p", "--partitions", help="How many partitions.")] = 1,
    replication_factor: Annotated[
        int, typer.Option("-r", "--replication-factor", help="How many brokers hold each partition.")
    ] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", metavar="KEY=VALUE", help="A topic setting, as retention.ms=60000."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Be content if the topic exists.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Create topics."""
    overrides = dict(parse_pair(text, "-c") for text in config or [])
    with open_admin(bootstrap, timeout) as admin:
        for name in dict.fromkeys(names):
            try:
                topic_id = admin.create_topic(name, partitions, replication_factor, overrides, timeout=timeout)
            except TopicAlreadyExists:
                if not if_not_exists:
                    raise
                note(f"topic {name} exists")
            else:
                write_line(f"created topic {name} with {_count(partitions, 'partition')}, id {topic_id}")
                flush()


@app.command("list")
def list_topics(
    output_format: Format = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT_S
) -> None:
    """List all topics."""
    with open_admin(bootstrap, timeout) as admin:
        topics = sorted(admin.describe_cluster(timeout=timeout).topics, key=lambda topic: topic.name)
    rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
    value = [{"topic": name, "partitions": count, "replication_factor": factor} for name, count, factor in rows]
    show([Table(("Topic", "Partitions", "ReplicationFactor"), rows)], value, output_format)


@app.command()
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="The topics' names.")] = None,
    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated", help="Only partitions without all replicas in sync; of all topics if none is named."
        ),
    ] = False,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show topics' ids, settings and partitions.

    Elr: out of sync, but with all that is committed. Lost: came back without their records. Moving: +5 -1, from broker 1 to 5.
    """
    if not names and not under_replicated:
        raise ConfigError("which topic?", hint="give NAME..., or --under-replicated; `ottla topic list` shows all")
    topics = _described(names, bootstrap, timeout)
    moving = _moving(bootstrap, timeout)
    if under_replicated:
        _show_under_replicated(topics, moving, output_format)
        return
    tables = [table for topic in topics for table in _tables(topic, moving)]
    values = [_as_value(topic, moving) for topic in topics]
    show(tables, values[0] if len(values) == 1 else values, output_format)


def _described(names: list[str] | None, bootstrap: str, timeout: float) -> "list[TopicMetadata]":
    with open_admin(bootstrap, timeout) as admin:
        if not names:
            return sorted(admin.describe_cluster(timeout=timeout).topics, key=lambda topic: topic.name)
        found = []
        for name in dict.fromkeys(names):
            try:
                found.append(admin.describe_topic(name, timeout=timeout))
            except UnknownTopicOrPartition as error:
                raise topic_not_found(name, admin.list_topics(timeout=timeout)) from error
        return found


def _moving(bootstrap: str, timeout: float) -> dict[tuple[str, int], str]:
    """What becomes of the replicas of partitions that are being moved, as ``+3 -1``. Only the controller knows."""
    try:
        with open_admin(bootstrap, timeout) as admin:
            moves = admin.list_partition_reassignments(timeout=min(timeout, MOVES_TIMEOUT_S))
    except OttlaError as error:
        note(f"what is being moved is not known: {error}")
        return {}
    signs = (("+", "adding"), ("-", "removing"))
    return {
        (one.topic, one.partition): " ".join(f"{sign}{broker}" for sign, name in signs for broker in getattr(one, name))
        for one in moves
    }


def _show_under_replicated(topics: "list[TopicMetadata]", moving: Moving, output_format: OutputFormat | None) -> None:
    missing = [
        (topic.name, p) for topic in topics for p in topic.partitions if p.leader < 0 or set(p.replicas) - set(p.isr)
    ]
    table = Table(("Topic", *PARTITION_COLUMNS), [(name, *_row(name, p, moving)) for name, p in missing])
    show([table], [{"topic": name, **_partition_value(name, p, moving)} for name, p in missing], output_format)


def _tables(topic: "TopicMetadata", moving: Moving) -> list[Table]:
    configs = ",".join(f"{key}={value}" for key, value in sorted(topic.config.items()))
    summary = Table(
        ("Topic", "TopicId", "PartitionCount", "ReplicationFactor", "Configs"),
        [(topic.name, topic.topic_id, len(topic.partitions), _replication_factor(topic), configs)],
    )
    return [summary, Table(PARTITION_COLUMNS, [_row(topic.name, p, moving) for p in topic.partitions])]


def _row(topic: str, p: "PartitionMetadata", moving: Moving) -> tuple[object, ...]:
    moves = moving.get((topic, p.partition), "")
    return p.partition, _leader(p.leader), _ids(p.replicas), _ids(p.isr), _ids(p.elr), _ids(p.lost), moves


@app.command()
def alter(
    name: Name,
    partitions: Annotated[int | None, typer.Option("-p", "--partitions", help="More partitions than it has.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", metavar="KEY=VALUE", help="A setting to change; the others stay."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="A setting to take away: the broker's counts then."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Give a topic more partitions, or other settings."""
    if partitions is None and not config and not unset:
        raise ConfigError("nothing to change", hint="give -p PARTITIONS, -c KEY=VALUE or --unset KEY")
    given = dict(parse_pair(text, "-c") for text in config or [])
    settings = {key: value for key, value in given.items() if value}
    gone = [*(unset or []), *(key for key, value in given.items() if not value)]  # KEY= takes it away, too
    with open_admin(bootstrap, timeout) as admin:
        try:
            if settings or gone:
                admin.alter_topic_config(name, settings, unset=gone, timeout=timeout)
            if partitions is not None:
                admin.add_partitions(name, partitions, timeout=timeout)
        except UnknownTopicOrPartition as error:
            raise topic_not_found(name, admin.list_topics(timeout=timeout)) from error
    write_line(f"altered topic {name}")


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete topics with all their records."""
    told = ", ".join(names)
    _confirm(yes, f"deleting topic {told} loses its records", f"Delete topic {told} and all its records?")
    with open_admin(bootstrap, timeout) as admin:
        for name in dict.fromkeys(names):
            try:
                admin.delete_topic(name, timeout=timeout)
            except UnknownTopicOrPartition as error:
                flush()
                raise topic_not_found(name, admin.list_topics(timeout=timeout)) from error
            write_line(f"deleted topic {name}")


@app.command("delete-records")
def delete_records(
    partitions: Annotated[list[str], typer.Argument(metavar="TOPIC[:PARTITION]...", help="Of which.")],
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="PLACE",
            help="The first that stays: latest (all go), OFFSET, -N (the last N stay), @MS, @2026-01-31T12:00 or @-7d.",
        ),
    ] = "latest",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete records from the beginning of partitions. The topics, and what groups have committed, stay."""
    place = parse_start(before, "--before")
    told = ", ".join(partitions)
    _confirm(yes, f"deleting records of {told} loses them", f"Delete records of {told} before {before}?")
    from ottla.client import Consumer

    with (
        open_admin(bootstrap, timeout) as admin,
        Consumer(bootstrap_servers=bootstrap, client_id=CLIENT_ID) as consumer,
    ):
        places = places_named(admin, partitions, timeout)
        earliest = consumer.beginning_offsets(places, timeout=timeout)
        latest = consumer.end_offsets(places, timeout=timeout)
        begins = admin.delete_records(start_offsets(consumer, place, earliest, latest, timeout), timeout=timeout)
    rows = [(where.topic, where.partition, earliest[where], begins[where]) for where in places]
    value = [{"topic": topic, "partition": number, "from": was, "to": now} for topic, number, was, now in rows]
    show([Table(("Topic", "Partition", "From", "To"), rows)], value, output_format)


def _confirm(yes: bool, warning: str, question: str) -> None:
    """Ask, where there is somebody to ask."""
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(warning, hint="give --yes if that is meant")
        typer.confirm(question, abort=True, err=True)


def _as_value(topic: "TopicMetadata", moving: Moving) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": topic.config,
        "partitions": [_partition_value(topic.name, p, moving) for p in topic.partitions],
    }


def _partition_value(topic: str, p: "PartitionMetadata", moving: Moving) -> dict[str, Any]:
    moves = moving.get((topic, p.partition), "").split()
    return {
        "partition": p.partition,
        "leader": p.leader if p.leader >= 0 else None,
        "leader_epoch": p.leader_epoch,
        "replicas": p.replicas,
        "isr": p.isr,
        "elr": list(p.elr),
        "lost": list(p.lost),
        "adding": [int(one[1:]) for one in moves if one[0] == "+"],
        "removing": [int(one[1:]) for one in moves if one[0] == "-"],
    }


def _replication_factor(topic: "TopicMetadata") -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _leader(leader: int) -> str:
    return str(leader) if leader >= 0 else "none"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
