"""Ports of this machine that are free."""

import random
import socket
from collections.abc import Collection

from ottla.zk.ensemble.java import EnsembleUnavailable

# Below the range that Linux takes ports for outgoing connections from: a server that is down for a moment must find
# its port free when it comes back.
PORTS = range(12_000, 32_000)


def free_ports(count: int, *, avoid: Collection[int] = ()) -> list[int]:
    """Ports on which nobody listens at the moment, each different, and none of those to ``avoid``."""
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if port in avoid:
            continue
        with socket.socket() as probe:
            # As servers do: a port where only old connections linger counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise EnsembleUnavailable(f"{count} free ports were not found")
