"""Clients for commands: fast to say that nobody listens, where a program would go on trying."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.wire.errors import NoBrokersAvailable

if TYPE_CHECKING:
    from ottla.client import Admin

CLIENT_ID = "ottla-cli"


def check_reachable(bootstrap: str, timeout_s: float) -> None:
    """NoBrokersAvailable if every address refuses; one that merely stays silent is left to the client's own patience."""
    from ottla.client.config import parse_addresses

    refused = []
    for host, port in parse_addresses(bootstrap):
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except TimeoutError:
            return
        except OSError as error:
            refused.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise NoBrokersAvailable(f"no broker at {', '.join(refused)}")


@contextmanager
def open_admin(bootstrap: str, timeout_s: float) -> Iterator["Admin"]:
    """An Admin of a cluster that can be reached."""
    check_reachable(bootstrap, timeout_s)
    from ottla.client import Admin

    with Admin(bootstrap_servers=bootstrap, client_id=CLIENT_ID) as admin:
        yield admin
