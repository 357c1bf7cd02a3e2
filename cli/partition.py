"""``ottla partition``: where partitions live and who leads them."""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.connection import open_admin
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Timeout
from ottla.cli.output import write_line
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.wire.requests import PartitionMetadata

app = typer.Typer(help="Move partitions, elect leaders.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def move(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    partition: Annotated[int, typer.Argument(help="The partition's number.")],
    brokers: Annotated[str, typer.Argument(metavar="ID,ID,...", help="Its new brokers, the preferred leader first.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Begin to move a partition to other brokers; `ottla topic describe` shows when it is done."""
    ids = brokers.split(",")
    if not all(text.strip().isdigit() for text in ids):
        raise ConfigError(f"{brokers!r} is not a list of broker ids", hint="give them as 1,2,3")
    with open_admin(bootstrap, timeout) as admin:
        admin.reassign(topic, partition, [int(text) for text in ids], timeout=timeout)
    write_line(f"moving {topic}-{partition} to brokers {brokers}")


@app.command()
def elect(
    partitions: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC:PARTITION]...", help="Which; all if none are named.")
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where a partition has no leader: take a replica that lives as it is, and lose what only others have.",
        ),
    ] = False,
    everywhere: Annotated[bool, typer.Option("--all", help="With --unclean: all partitions without a leader.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Give leadership back to preferred leaders that are in sync."""
    named = [_parse(text) for text in partitions] if partitions else None
    if named is not None and everywhere:
        raise ConfigError("partitions are named, and --all is said", hint="give one of them, not both")
    if unclean and named is None and not everywhere:
        raise ConfigError("--unclean loses records", hint="name the partitions, or say --all")
    with open_admin(bootstrap, timeout) as admin:
        admin.elect_leaders(named, unclean=unclean, timeout=timeout)
        topics = {topic.name: topic for topic in admin.describe_cluster(timeout=timeout).topics}
    if named is None:
        write_line(_counted([found for topic in topics.values() for found in topic.partitions]))
    for name, number in named or ():
        found = topics[name].partitions if name in topics else []
        leader = _leader(found[number]) if number < len(found) else "is gone meanwhile"
        write_line(f"{name}-{number} {leader}")


def _leader(partition: "PartitionMetadata") -> str:
    if partition.leader < 0:
        return "has no leader"
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return f"is led by broker {preferred}, the preferred one"
    why = "" if preferred in partition.isr else ", which is not in sync"
    return f"is led by broker {partition.leader}; preferred is broker {preferred}{why}"


def _counted(partitions: list["PartitionMetadata"]) -> str:
    led = sum(partition.leader >= 0 for partition in partitions)
    preferred = sum(partition.leader == partition.replicas[0] for partition in partitions)
    return f"{led} of {len(partitions)} partitions have a leader, {preferred} of them the preferred one"


def _parse(text: str) -> tuple[str, int]:
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        raise ConfigError(f"{text!r} is not TOPIC:PARTITION")
    return topic, int(number)
