"""``ottla cluster``: who is in it."""

from collections import Counter

import typer

from ottla.cli.connection import open_admin
from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout
from ottla.cli.output import Table, show

app = typer.Typer(help="Look at a cluster.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look at a cluster."""  # with a callback typer keeps `cluster info` two words although there is one command


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
