"""``ottla group``: which groups there are, who is in them, how far they are, and moving them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.connection import CLIENT_ID, open_admin
from ottla.cli.errors import NotFound
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout, parse_pair
from ottla.cli.output import OutputFormat, Table, note, show, write_line
from ottla.cli.places import places_named
from ottla.cli.start_offsets import Start, outside_the_log, parse_start, start_offsets
from ottla.wire.errors import GroupIdNotFound

if TYPE_CHECKING:
    from ottla.client import Admin, TopicPartition
    from ottla.client.groups.descriptions import GroupDescription, PartitionLag

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True, rich_markup_mode=None)

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
    oldest = _seconds(max((one.lag_seconds for one in lag.values()), default=0.0))
    size = len(described.members)
    summary = Table(
        ("Group", "State", "Generation", "Strategy", "Members", "Lag", "LagSeconds"),
        [(group, described.state, described.generation, described.strategy or "-", size, total, oldest)],
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
    """Show how far a group is behind, partition by partition: in records, and in seconds (the age of the first of them)."""
    with open_admin(bootstrap, timeout) as admin:
        _described(admin, group, timeout)
        found = admin.group_lag(group, timeout=timeout)
    show([_lag_table(found)], _lag_value(found), output_format)


Execute = Annotated[bool, typer.Option("--execute/--dry-run", help="Do it; else it is only shown what would be done.")]


@app.command()
def reset(
    group: Name,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC[:PARTITION]]...", help="Which; all it has committed if none.")
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "-o",
            "--to",
            metavar="PLACE",
            help="Where to: earliest, latest, OFFSET, -N (the last N), @MS, @ISO or @-15m.",
        ),
    ] = "earliest",
    execute: Execute = False,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Let a group without members go on from elsewhere. Shows what it would do, unless told to --execute."""
    place = parse_start(to)
    with open_admin(bootstrap, timeout) as admin:
        known = admin.group_offsets(group, timeout=timeout)
        places = places_named(admin, topics, timeout) if topics else list(known)
        if not places:
            raise NotFound(f"group {group} has committed nothing", hint="name the topics")
        _go_on_at(admin, group, dict.fromkeys(places, place), execute, bootstrap, timeout, output_format)


@app.command()
def seek(
    group: Name,
    places: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC:PARTITION=PLACE...", help="Where to, as `group reset -o` names places."),
    ],
    execute: Execute = False,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """As reset, with a place for each partition: orders:0=42 orders:1=latest."""
    wanted = [parse_pair(text, "PLACE") for text in places]
    with open_admin(bootstrap, timeout) as admin:
        starts = {
            where: parse_start(place, name) for name, place in wanted for where in places_named(admin, [name], timeout)
        }
        _go_on_at(admin, group, starts, execute, bootstrap, timeout, output_format)


def _go_on_at(
    admin: "Admin",
    group: str,
    starts: "dict[TopicPartition, Start]",
    execute: bool,
    bootstrap: str,
    timeout_s: float,
    output_format: OutputFormat | None,
) -> None:
    from ottla.client import Consumer

    known = admin.group_offsets(group, timeout=timeout_s)
    with Consumer(bootstrap_servers=bootstrap, client_id=CLIENT_ID) as consumer:
        earliest = consumer.beginning_offsets(starts, timeout=timeout_s)
        latest = consumer.end_offsets(starts, timeout=timeout_s)
        wanted = start_offsets(consumer, starts, earliest, latest, timeout_s)
    outside = outside_the_log(starts, earliest, latest)
    if execute:
        admin.alter_group_offsets(group, wanted, timeout=timeout_s)
    rows = [
        (where.topic, where.partition, known[where].offset if where in known else "-", wanted[where])
        for where in sorted(wanted)
    ]
    value = [{"topic": t, "partition": p, "from": None if a == "-" else a, "to": b} for t, p, a, b in rows]
    show([Table(("Topic", "Partition", "From", "To"), rows)], value, output_format)
    if outside:
        note(outside)
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


def _lag_table(lag: "dict[TopicPartition, PartitionLag]") -> Table:
    return Table(
        ("Topic", "Partition", "CurrentOffset", "LogEndOffset", "Lag", "LagSeconds", "ClientId", "Host"),
        [
            (
                where.topic, where.partition, "-" if one.committed is None else one.committed, one.end, one.lag,
                _seconds(one.lag_seconds),
                one.member.client_id if one.member is not None else "-", one.member.host if one.member is not None else "-",
            )
            for where, one in sorted(lag.items())
        ],
    )  # fmt: skip


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds else "0"


def _lag_value(lag: "dict[TopicPartition, PartitionLag]") -> list[dict[str, Any]]:
    return [
        {
            "topic": where.topic, "partition": where.partition, "current_offset": one.committed, "log_end_offset": one.end,
            "lag": one.lag, "lag_seconds": round(one.lag_seconds, 3),
            "member": one.member.member_id if one.member is not None else None,
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
