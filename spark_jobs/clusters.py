"""The connections of this process to clusters: one set for each way to ask for it, kept from task to task.

Spark's Python workers are used again and again, and a connection takes longer to make than a small slice to read.
"""

import os
import threading

from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig, ConsumerConfig, build
from ottla.client.loop_thread import shared_loop_thread
from ottla.spark_jobs.client_options import ClientOptions

CLUSTERS_MAX = 8
"""A worker serves one application, which reads from one cluster or two."""

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
