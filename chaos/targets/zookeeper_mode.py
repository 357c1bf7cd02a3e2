"""Which role a ZooKeeper server says it has."""

import socket


def zookeeper_mode(host: str, port: int) -> str | None:
    """leader, follower or standalone; None if it does not serve."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as sock:
            sock.settimeout(1.0)
            sock.sendall(b"srvr")
            answer = b"".join(iter(lambda: sock.recv(4096), b"")).decode(errors="replace")
    except OSError:
        return None
    return next((line[6:].strip() for line in answer.splitlines() if line.startswith("Mode: ")), None)
