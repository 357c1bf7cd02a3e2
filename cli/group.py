"""``ottla group``: which groups there are, who is in them, how far they are, and moving them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import NotFound
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout
from ottla.cli.output import Table, note, show, write_line
from ottla.cli.start_offsets import parse_start, start_offsets
from ottla.wire.errors import ConfigError, GroupIdNotFound

if TYPE_CHECKING:
    from ottla.client import Admin, TopicPartition
    from ottla.client.groups.descriptions import GroupDescription, PartitionLag

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


@app.command("list")
def list_groups(
    output_format: Format = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT_S
) -> None:
    """List all groups."""
    with open_admin(bootstrap, timeout) as admin:
        groups = admin.list_groups(timeout=timeout)
    rows = list(groups.items())
    show([Table(("Group", "State"), rows)], [{"group": name, "state": state} for name, state in rows], output_format)


@app.command()
def describe(
    group: Name,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show a group's state, its members, and how far it is in each partition."""
    with open_admin(bootstrap, timeout) as admin:
        described = _described(admin, group, timeout)
        lag = admin.group_lag(group, timeout=timeout)
    total = sum(one.lag for one in lag.values())
    summary = Table(
        ("Group", "State", "Generation", "Strategy", "Members", "Lag"),
        [(group, described.state, described.generation, described.strategy or "-", len(described.members), total)],
    )
    members = Table(
        ("Member", "InstanceId", "ClientId", "Host", "Partitions"),
        [
            (one.member_id, one.instance_id or "-", one.client_id, one.host, len(one.partitions))
            for one in described.members
        ],
    )
    show([summary, members, _lag_table(lag)], {**_as_value(described), "partitions": _lag_value(lag)}, output_format)


@app.command()
def lag(
    group: Name,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show how many records a group has yet to read, partition by partition."""
    with open_admin(bootstrap, timeout) as admin:
        _described(admin, group, timeout)
        found = admin.group_lag(group, timeout=timeout)
    show([_lag_table(found)], _lag_value(found), output_format)


@app.command()
def reset(
    group: Name,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC[:PARTITION]]...", help="Which; all it has committed if none.")
    ] = None,
    to: Annotated[
        str,
        typer.Option("-o", "--to", metavar="START", help="Where to: earliest, latest, OFFSET, -N (the last N) or @MS."),
    ] = "earliest",
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; else it is only shown what would be done.")
    ] = False,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Let a group without members go on from elsewhere. Shows what it would do, unless told to --execute."""
    start = parse_start(to)
    from ottla.client import Consumer

    with (
        open_admin(bootstrap, timeout) as admin,
        Consumer(bootstrap_servers=bootstrap, client_id=CLIENT_ID) as consumer,
    ):
        known = admin.group_offsets(group, timeout=timeout)
        places = _places(admin, topics or [], list(known), timeout)
        if not places:
            raise NotFound(f"group {group} has committed nothing", hint="name the topics")
        earliest = consumer.beginning_offsets(places, timeout=timeout)
        latest = consumer.end_offsets(places, timeout=timeout)
        wanted = start_offsets(consumer, start, earliest, latest, timeout)
        if execute:
            admin.alter_group_offsets(group, wanted, timeout=timeout)
    rows = [
        (where.topic, where.partition, known[where].offset if where in known else "-", wanted[where])
        for where in sorted(wanted)
    ]
    value = [{"topic": t, "partition": p, "from": None if a == "-" else a, "to": b} for t, p, a, b in rows]
    show([Table(("Topic", "Partition", "From", "To"), rows)], value, output_format)
    if not execute:
        note("nothing was changed: say --execute to do it")


@app.command()
def delete(
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Forget a group that has no members, and all that it committed."""
    with open_admin(bootstrap, timeout) as admin:
        _described(admin, group, timeout)
        if not yes:
            typer.confirm(f"Forget group {group} and all offsets that it committed?", abort=True)
        admin.delete_group(group, timeout=timeout)
    write_line(f"deleted group {group}")


def _described(admin: "Admin", group: str, timeout_s: float) -> "GroupDescription":
    try:
        return admin.describe_group(group, timeout=timeout_s)
    except GroupIdNotFound:
        names = list(admin.list_groups(timeout=timeout_s))
        raise NotFound(
            f"group {group} does not exist",
            hint=f"there are {', '.join(names[:10])}" if names else "there are no groups",
        ) from None


def _places(
    admin: "Admin", named: list[str], known: "list[TopicPartition]", timeout_s: float
) -> "list[TopicPartition]":
    from ottla.client import TopicPartition

    if not named:
        return known
    places = []
    for text in named:
        topic, colon, number = text.rpartition(":")
        if not colon:
            count = len(admin.describe_topic(text, timeout=timeout_s).partitions)
            places += [TopicPartition(text, partition) for partition in range(count)]
        elif number.isascii() and number.isdigit():
            places.append(TopicPartition(topic, int(number)))
        else:
            raise ConfigError(f"{text!r} is no TOPIC or TOPIC:PARTITION")
    return places


def _lag_table(lag: "dict[TopicPartition, PartitionLag]") -> Table:
    return Table(
        ("Topic", "Partition", "CurrentOffset", "LogEndOffset", "Lag", "ClientId", "Host"),
        [
            (
                where.topic, where.partition, "-" if one.committed is None else one.committed, one.end, one.lag,
                one.member.client_id if one.member is not None else "-", one.member.host if one.member is not None else "-",
            )
            for where, one in sorted(lag.items())
        ],
    )  # fmt: skip


def _lag_value(lag: "dict[TopicPartition, PartitionLag]") -> list[dict[str, Any]]:
    return [
        {
            "topic": where.topic, "partition": where.partition, "current_offset": one.committed, "log_end_offset": one.end,
            "lag": one.lag, "member": one.member.member_id if one.member is not None else None,
        }
        for where, one in sorted(lag.items())
    ]  # fmt: skip


def _as_value(group: "GroupDescription") -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "strategy": group.strategy,
        "members": [
            {
                "member": one.member_id, "instance": one.instance_id, "client_id": one.client_id, "host": one.host,
                "partitions": [[where.topic, where.partition] for where in one.partitions],
            }
            for one in group.members
        ],
    }  # fmt: skip
