"""``ottla cluster``: who is in it, whether all is well, and moving replicas so that brokers can come and go."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.connection import open_admin
from ottla.cli.errors import FAILED, NotFound
from ottla.cli.moves import balanced, drained
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout, parse_pair
from ottla.cli.output import OutputFormat, Table, note, show, write_line
from ottla.wire.errors import ClientTimeout, ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.client import Admin, TopicPartition
    from ottla.wire.requests import MetadataResponse

app = typer.Typer(help="Look at a cluster, and let brokers come and go.", no_args_is_help=True, rich_markup_mode=None)

POLL_S = 0.2

Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown what would be done.")]
WaitS = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the end; 0 does not wait.")
]


@app.command()
def info(
    output_format: Format = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT_S
) -> None:
    """Show the cluster's id, controller, brokers, racks and how much it holds."""
    with open_admin(bootstrap, timeout) as admin:
        cluster = admin.describe_cluster(timeout=timeout)
    partitions = [partition for topic in cluster.topics for partition in topic.partitions]
    leaders = Counter(partition.leader for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replicas)
    brokers = sorted(cluster.brokers, key=lambda broker: broker.id)
    racks = sorted({broker.rack for broker in brokers if broker.rack})
    controller = cluster.controller if cluster.controller >= 0 else None
    summary = Table(
        ("ClusterId", "Controller", "Brokers", "Racks", "Topics", "Partitions"),
        [(cluster.cluster_id, controller, len(brokers), ",".join(racks), len(cluster.topics), len(partitions))],
    )
    members = Table(
        ("Broker", "Host", "Port", "Rack", "Leaders", "Replicas"),
        [(b.id, b.host, b.port, b.rack, leaders[b.id], replicas[b.id]) for b in brokers],
    )
    value = {
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        "racks": racks,
        "topics": len(cluster.topics),
        "partitions": len(partitions),
        "brokers": [
            {"id": b.id, "host": b.host, "port": b.port, "rack": b.rack, "leaders": leaders[b.id], "replicas": replicas[b.id]}
            for b in brokers
        ],
    }  # fmt: skip
    show([summary, members], value, output_format)


@app.command()
def config(
    broker: Annotated[int | None, typer.Option("--broker", metavar="ID", help="Of this broker; else of all.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting to change while brokers run.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="A setting to take away again.")
    ] = None,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show a broker's settings, or what was set for all; or change some of them, without a restart."""
    given = dict(parse_pair(text, "--set") for text in settings or [])
    with open_admin(bootstrap, timeout) as admin:
        if given or unset:
            admin.alter_broker_config(broker, given, unset=unset or [], timeout=timeout)
            write_line(f"altered {'all brokers' if broker is None else f'broker {broker}'}")
            return
        entries = admin.describe_broker_config(broker, timeout=timeout)
    rows = [(one.key, one.value, _SOURCES.get(one.source, one.source), not one.read_only) for one in entries]
    value = [{"key": key, "value": text, "source": source, "changeable": free} for key, text, source, free in rows]
    shown = [(key, text, source, "yes" if free else "") for key, text, source, free in rows]
    show([Table(("Setting", "Value", "From", "Changeable"), shown)], value, output_format)


_SOURCES = {2: "this broker", 3: "all brokers", 4: "start", 5: "default"}
"""Where a broker's setting comes from, by Kafka's numbers."""


@app.command()
def check(
    wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait until all is well.")] = 0.0,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Show partitions without a leader, without all replicas in sync, or on the move; ends with 1 if there are some."""
    deadline = time.monotonic() + wait
    with open_admin(bootstrap, timeout) as admin:
        while (found := _problems(admin, timeout)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    value = [{"topic": topic, "partition": partition, "problem": problem} for topic, partition, problem in found]
    if found or output_format is OutputFormat.JSON:
        show([Table(("Topic", "Partition", "Problem"), found)], value, output_format)
    else:
        write_line("all is well")
    return FAILED if found else 0


def _problems(admin: "Admin", timeout_s: float) -> list[tuple[str, int, str]]:
    cluster = admin.describe_cluster(timeout=timeout_s)
    found = []
    for topic in sorted(cluster.topics, key=lambda topic: topic.name):
        for p in topic.partitions:
            missing = sorted(set(p.replicas) - set(p.isr))
            if p.leader < 0:
                lost = f"; without records came back {_ids(p.lost)}" if p.lost else ""
                found.append((topic.name, p.partition, f"no leader, waiting for {_ids(p.isr)}{lost}"))
            elif missing:
                found.append((topic.name, p.partition, f"not in sync: {_ids(missing)}"))
    moving = admin.list_partition_reassignments(timeout=timeout_s)
    found += [(one.topic, one.partition, f"moving to {_ids(one.adding or one.replicas)}") for one in moving]
    return found


@app.command()
def drain(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The broker that is to have no replicas.")],
    execute: Execute = False,
    fewer: Annotated[
        bool, typer.Option("--fewer-replicas", help="Where no other broker is free, have one replica less.")
    ] = False,
    wait: WaitS = 600.0,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Move all replicas of a broker to others, so that it can go. Shows what it would do, unless told to --execute."""
    with open_admin(bootstrap, timeout) as admin:
        cluster = _at_rest(admin, timeout)
        layout = _layout(cluster)
        racks = {b.id: b.rack for b in cluster.brokers if b.id != broker}
        if len(racks) == len(cluster.brokers) and not any(broker in replicas for replicas in layout.values()):
            raise NotFound(f"there is no broker {broker}", hint=f"there are {_ids(sorted(racks))}")
        _move(admin, layout, drained(layout, racks, broker, fewer=fewer), execute, wait, output_format)


@app.command()
def balance(
    execute: Execute = False,
    wait: WaitS = 600.0,
    output_format: Format = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Move replicas until all brokers have as many, a new one too. Shows what it would do, unless told to --execute."""
    with open_admin(bootstrap, timeout) as admin:
        cluster = _at_rest(admin, timeout)
        layout = _layout(cluster)
        plan = balanced(layout, {b.id: b.rack for b in cluster.brokers})
        _move(admin, layout, plan, execute, wait, output_format)


def _at_rest(admin: "Admin", timeout_s: float) -> "MetadataResponse":
    if admin.list_partition_reassignments(timeout=timeout_s):
        raise ConfigError("partitions are on the move already", hint="`ottla cluster check --wait 600` waits for them")
    return admin.describe_cluster(timeout=timeout_s)


def _layout(cluster: "MetadataResponse") -> "dict[TopicPartition, list[int]]":
    from ottla.client import TopicPartition

    return {TopicPartition(topic.name, p.partition): p.replicas for topic in cluster.topics for p in topic.partitions}


def _move(
    admin: "Admin",
    layout: "dict[TopicPartition, list[int]]",
    plan: "dict[TopicPartition, list[int]]",
    execute: bool,
    wait_s: float,
    output_format: OutputFormat | None,
) -> None:
    rows = [(where.topic, where.partition, _ids(layout[where]), _ids(plan[where])) for where in sorted(plan)]
    value = [
        {"topic": where.topic, "partition": where.partition, "from": layout[where], "to": plan[where]}
        for where in sorted(plan)
    ]
    show([Table(("Topic", "Partition", "From", "To"), rows)], value, output_format)
    if not plan:
        note("nothing is to be moved")
    elif not execute:
        note("nothing was changed: say --execute to do it")
    else:
        _carry_out(admin, plan, wait_s)


def _carry_out(admin: "Admin", plan: "dict[TopicPartition, list[int]]", wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    outcomes = admin.alter_partition_reassignments({(where.topic, where.partition): new for where, new in plan.items()})
    refused = [error for error in outcomes.values() if error is not None]
    if refused:
        raise OttlaError(f"{len(refused)} of {len(plan)} partitions cannot be moved, the others are: {refused[0]}")
    while left := len(admin.list_partition_reassignments(list(plan))):
        if time.monotonic() >= deadline:
            if not wait_s:
                note(f"{left} partitions are on the move: `ottla cluster check` shows them")
                return
            raise ClientTimeout(
                f"{left} of {len(plan)} partitions are still on the move after {wait_s:g} s",
                hint="they go on moving; `ottla cluster check --wait` waits for them",
            )
        time.sleep(POLL_S)
    admin.elect_leaders(list(plan))
    note(f"{len(plan)} partitions were moved")


def _ids(ids: "list[int] | tuple[int, ...]") -> str:
    return ",".join(map(str, ids))
