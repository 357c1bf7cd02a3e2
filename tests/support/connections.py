"""Whom a process is connected to, as the kernel knows it."""

import re
from pathlib import Path

_ESTABLISHED = "01"


def connected_to(pid: int) -> set[tuple[str, int]]:
    """The far ends of the established TCP connections (IPv4) of a process."""
    own = _socket_inodes(pid)
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {_address(row[2]) for row in rows if row[3] == _ESTABLISHED and row[9] in own}


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink()))
        except FileNotFoundError:
            continue  # closed in the meantime
        if match is not None:
            found.add(match[1])
    return found


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(host))), int(port, 16)
