"""A cluster in which every link can be cut: each broker is found by others, and finds ZooKeeper, through a proxy of its own."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.local import LocalCluster
from tests.support.proxy import Proxy


@dataclass(frozen=True)
class CutOffCluster:
    """``to[i]`` is what all others and all clients go through to reach broker i, ``zookeeper_of[i]`` its way to ZooKeeper."""

    cluster: LocalCluster
    to: list[Proxy]
    zookeeper_of: list[Proxy]

    def heal(self) -> None:
        for proxy in (*self.to, *self.zookeeper_of):
            proxy.heal()


@contextlib.contextmanager
def running_cut_off_cluster(brokers: int, config: Mapping[str, str]) -> Iterator[CutOffCluster]:
    with LocalCluster(brokers=brokers, broker_config=config) as cluster, contextlib.ExitStack() as stack:
        to, zookeeper_of = [], []
        server = cluster.zookeeper_servers.address(0)
        for broker in cluster.brokers:
            to.append(stack.enter_context(Proxy(_pair(cluster.address(broker)))))
            zookeeper_of.append(stack.enter_context(Proxy(_pair(server))))
            cluster.terminate(broker)
            with (cluster.folder / f"broker-{broker}" / "server.properties").open("a") as properties:
                properties.write(f"advertised.listeners=PLAINTEXT://{to[-1].address}\n")
                # Of two lines with the same name, the later one counts.
                properties.write(f"zookeeper.connect={cluster.zookeeper.replace(server, zookeeper_of[-1].address)}\n")
        for broker in cluster.brokers:
            cluster.start(broker)
        yield CutOffCluster(cluster, to, zookeeper_of)


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)
