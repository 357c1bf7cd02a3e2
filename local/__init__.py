"""A whole cluster on this machine: real ZooKeeper servers and real broker processes.

    from ottla.local import LocalCluster

    with LocalCluster(brokers=3) as cluster:
        print(cluster.bootstrap)
        cluster.kill(0)

Nothing is left behind when the block ends, nor when the process that runs it is killed.
"""

from ottla.local.cluster import LocalCluster
from ottla.local.errors import LocalClusterError

__all__ = ["LocalCluster", "LocalClusterError"]
