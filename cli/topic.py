"""``ottla topic``: create, list, describe, alter, delete."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.connection import open_admin
from ottla.cli.errors import NotFound
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout, parse_pair
from ottla.cli.output import OutputFormat, Table, flush, note, show, write_line
from ottla.wire.errors import ConfigError, TopicAlreadyExists, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.wire.requests import TopicMetadata

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None)

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
    """Show topics' ids, settings and partitions."""
    if not names and not under_replicated:
        raise ConfigError("which topic?", hint="give NAME..., or --under-replicated; `ottla topic list` shows all")
    topics = _described(names, bootstrap, timeout)
    if under_replicated:
        _show_under_replicated(topics, output_format)
        return
    tables = [table for topic in topics for table in _tables(topic)]
    values = [_as_value(topic) for topic in topics]
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
                raise not_found(name, admin.list_topics(timeout=timeout)) from error
        return found


def _show_under_replicated(topics: "list[TopicMetadata]", output_format: OutputFormat | None) -> None:
    missing = [
        (topic.name, p) for topic in topics for p in topic.partitions if p.leader < 0 or set(p.replicas) - set(p.isr)
    ]
    table = Table(
        ("Topic", "Partition", "Leader", "Replicas", "Isr"),
        [(name, p.partition, _leader(p.leader), _ids(p.replicas), _ids(p.isr)) for name, p in missing],
    )
    value = [
        {"topic": name, "partition": p.partition, "leader": p.leader, "replicas": p.replicas, "isr": p.isr}
        for name, p in missing
    ]
    show([table], value, output_format)


def _tables(topic: "TopicMetadata") -> list[Table]:
    configs = ",".join(f"{key}={value}" for key, value in sorted(topic.config.items()))
    summary = Table(
        ("Topic", "TopicId", "PartitionCount", "ReplicationFactor", "Configs"),
        [(topic.name, topic.topic_id, len(topic.partitions), _replication_factor(topic), configs)],
    )
    partitions = Table(
        ("Partition", "Leader", "Replicas", "Isr"),
        [(p.partition, _leader(p.leader), _ids(p.replicas), _ids(p.isr)) for p in topic.partitions],
    )
    return [summary, partitions]


@app.command()
def alter(
    name: Name,
    partitions: Annotated[int | None, typer.Option("-p", "--partitions", help="More partitions than it has.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", metavar="KEY=VALUE", help="A setting to change; an empty value takes it away."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Give a topic more partitions, or other settings."""
    if partitions is None and not config:
        raise ConfigError("nothing to change", hint="give -p PARTITIONS or -c KEY=VALUE")
    changes = dict(parse_pair(text, "-c") for text in config or [])
    with open_admin(bootstrap, timeout) as admin:
        try:
            if changes:
                settings = {key: value or None for key, value in changes.items()}
                error = admin.incremental_alter_configs({name: settings}, timeout=timeout)[name]
                if error is not None:
                    raise error
            if partitions is not None:
                admin.add_partitions(name, partitions, timeout=timeout)
        except UnknownTopicOrPartition as error:
            raise not_found(name, admin.list_topics(timeout=timeout)) from error
    write_line(f"altered topic {name}")


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete topics with all their records."""
    if not yes:
        told = ", ".join(names)
        if not sys.stdin.isatty():
            raise ConfigError(f"deleting topic {told} loses its records", hint="give --yes if that is meant")
        typer.confirm(f"Delete topic {told} and all its records?", abort=True, err=True)
    with open_admin(bootstrap, timeout) as admin:
        for name in dict.fromkeys(names):
            try:
                admin.delete_topic(name, timeout=timeout)
            except UnknownTopicOrPartition as error:
                flush()
                raise not_found(name, admin.list_topics(timeout=timeout)) from error
            write_line(f"deleted topic {name}")


def not_found(name: str, topics: list[str]) -> NotFound:
    """No such topic; with the one that was probably meant."""
    import difflib

    near = difflib.get_close_matches(name, topics, n=1)
    hint = f"did you mean {near[0]}?" if near else f"`ottla topic create {name}` makes it"
    return NotFound(f"topic {name!r} does not exist", topic=name, hint=hint)


def _as_value(topic: "TopicMetadata") -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": topic.config,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader if p.leader >= 0 else None,
                "leader_epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
            }
            for p in topic.partitions
        ],
    }


def _replication_factor(topic: "TopicMetadata") -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _leader(leader: int) -> str:
    return str(leader) if leader >= 0 else "none"


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
