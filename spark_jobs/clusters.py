"""The connections of this process to clusters: one set for each way to ask for it, kept from task to task.

Spark's Python workers are used again and again, and a connection takes longer to make than a small slice to read.
"""

import difflib
import os
import threading
from collections.abc import Collection

from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig, ConsumerConfig, build
from ottla.client.loop_thread import shared_loop_thread
from ottla.spark_jobs.client_options import ClientOptions
from ottla.wire.errors import ConfigError, NoBrokersAvailable

CLUSTERS_MAX = 8
"""A worker serves one application, which reads from one cluster or two."""

APPEAR_S = 2.0
"""How long a topic that nobody knows is asked for: a broker may not have heard yet of one that was just made."""

_lock = threading.Lock()
_clusters: dict[tuple[int, type[ClientConfig], ClientOptions], Cluster] = {}


def cluster_for(options: ClientOptions, kind: type[ClientConfig] = ConsumerConfig) -> Cluster:
    """The cluster that these options lead to, on the event loop of ``shared_loop_thread()``."""
    key = (os.getpid(), kind, options)  # a forked child has none of its parent's connections
    with _lock:
        if key not in _clusters:
            if len(_clusters) >= CLUSTERS_MAX:
                _clusters.pop(next(iter(_clusters))).abandon()
            config = build(kind, dict(options))
            _clusters[key] = shared_loop_thread().call(lambda: Cluster(config))
        return _clusters[key]


# --- what is told where it cannot be had ---------------------------------------------------------------------------------


async def unknown_topic(cluster: Cluster, option: str, names: Collection[str]) -> ConfigError:
    """What to say of a topic that is not there, with the nearest of those that are."""
    there = sorted(topic.name for topic in (await cluster.metadata(None)).topics if not topic.error_code)
    missing = [name for name in names if name not in there]
    near = difflib.get_close_matches(missing[0], there, n=1) if missing else []
    hint = f"did you mean {near[0]!r}?" if near else "create it first (`ottla topic create`), or correct the name"
    cluster.watched.difference_update(missing)
    return ConfigError(f"option {option}: topic {(missing or ['?'])[0]!r} does not exist; {hint}")


def unreachable(cluster: Cluster, options: ClientOptions, timeout_s: float) -> NoBrokersAvailable:
    servers = dict(options)["bootstrap_servers"]
    return NoBrokersAvailable(
        f"option kafka.bootstrap.servers={servers!r}: no broker answered within {timeout_s:g} s; "
        f"{cluster.tried()}; is the cluster up, and can this machine reach it?"
    )
