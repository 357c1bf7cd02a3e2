"""A local cluster in which every link can be cut: all ways to a broker, and from it to ZooKeeper, go through proxies."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ottla.chaos.faults import CLIENTS
from ottla.chaos.proxy import Held, Proxy
from ottla.local import LocalCluster

_BROKER = re.compile(rb"broker-(\d+)")


def broker_name(broker: int) -> str:
    return f"broker{broker}"


def zookeeper_name(server: int) -> str:
    return f"zookeeper{server}"


class LinkedCluster:
    """``to[i]`` is what all others and all clients go through to reach broker i, ``zookeeper_of[i][j]`` its way to server j.

    A one-way block holds back what one end sends and lets the other's bytes pass, whoever opened the connection.
    """

    def __init__(self, cluster: LocalCluster, to: Sequence[Proxy], zookeeper_of: Sequence[Sequence[Proxy]]) -> None:
        self.cluster = cluster
        self.to = to
        self.zookeeper_of = zookeeper_of
        self._blocked: set[tuple[str, str]] = set()

    @property
    def bootstrap(self) -> str:
        """What clients take whose links shall be cut too."""
        return ",".join(proxy.address for proxy in self.to)

    def heal(self) -> None:
        self._blocked.clear()
        for proxy in (*self.to, *(one for row in self.zookeeper_of for one in row)):
            proxy.heal()

    def block(self, source: str, sink: str) -> None:
        """Nothing that ``source`` sends reaches ``sink``, until ``unblock``."""
        self._blocked.add((source, sink))
        self._hold()

    def unblock(self, source: str, sink: str) -> None:
        self._blocked.discard((source, sink))
        self._hold()

    def _hold(self) -> None:
        for broker, row in enumerate(self.zookeeper_of):
            self.to[broker].hold(self._held_on_the_way_to(broker_name(broker)))
            for server, proxy in enumerate(row):
                proxy.hold(self._held_between(broker_name(broker), zookeeper_name(server)))

    def _held_on_the_way_to(self, broker: str) -> Held | None:
        blocked = {pair for pair in self._blocked if broker in pair}
        # A controller's probe does not say who it is: it shares the fate of any broker that is cut off.
        some_broker = {
            upward
            for upward in (True, False)
            for source, sink in blocked
            if (sink if upward else source) == broker and (source if upward else sink).startswith("broker")
        }

        def held(greeting: bytes, upward: bool) -> bool:
            if b"probe" in greeting:
                return upward in some_broker
            match = _BROKER.search(greeting)
            peer = broker_name(int(match[1])) if match else CLIENTS
            return ((peer, broker) if upward else (broker, peer)) in blocked

        return held if blocked else None

    def _held_between(self, broker: str, zookeeper: str) -> Held | None:
        blocked = self._blocked & {(broker, zookeeper), (zookeeper, broker)}
        if not blocked:
            return None
        return lambda _, upward: ((broker, zookeeper) if upward else (zookeeper, broker)) in blocked


@contextlib.contextmanager
def running_linked_cluster(
    brokers: int,
    config: Mapping[str, str],
    *,
    zookeepers: int = 1,
    racks: int = 1,
    folder: Path | None = None,
) -> Iterator[LinkedCluster]:
    """A cluster whose brokers run behind proxies."""
    running = LocalCluster(brokers, zookeepers, racks, broker_config=config, folder=folder)
    with running as cluster, contextlib.ExitStack() as stack:
        to, zookeeper_of = [], []
        servers = cluster.zookeeper_servers
        for broker in cluster.brokers:
            to.append(stack.enter_context(Proxy(_pair(cluster.address(broker)))))
            row = [stack.enter_context(Proxy(_pair(servers.address(index)))) for index in range(len(servers))]
            zookeeper_of.append(row)
            cluster.terminate(broker)
            with (cluster.folder / f"broker-{broker}" / "server.properties").open("a") as properties:
                # Of two lines with the same name, the later one counts.
                properties.write(f"advertised.listeners=PLAINTEXT://{to[-1].address}\n")
                properties.write(f"zookeeper.connect={','.join(proxy.address for proxy in row)}\n")
        for broker in cluster.brokers:
            cluster.start(broker)
        yield LinkedCluster(cluster, to, zookeeper_of)


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)
