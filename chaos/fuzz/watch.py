"""The brokers from outside: whether they live, what they hold, and whether something went wrong that nobody foresaw."""

import http.client
import re
from pathlib import Path
from typing import Final, NamedTuple

from ottla.local import LocalCluster

LOG_MAX: Final = 4_000
"""Characters of a broker's log that a violation tells."""


class Look(NamedTuple):
    """One broker at one moment."""

    pid: int
    alive: bool
    memory_mb: float
    """Its own, without pages of mapped files, which the kernel takes back when it likes."""
    descriptors: int
    unforeseen: float
    """Requests that were answered with UNKNOWN_SERVER_ERROR."""
    log_size: int
    busy_ms: float = 0.0
    """The longest CPU time for which its event loop kept everybody waiting since the look before."""


def look_at(cluster: LocalCluster, broker: int) -> Look:
    pid = cluster.pid(broker)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        memory = sum(int(number) for number in re.findall(r"(?:RssAnon|VmSwap):\s+(\d+)", status)) / 1024
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        log_size = cluster.log_path(broker).stat().st_size
        metrics = _metrics(cluster, broker)
        busy_ms = 1000 * _sum_of(metrics, "ottla_event_loop_longest_busy_seconds")
        unforeseen = _sum_of(metrics, "ottla_request_errors_total", "UNKNOWN_SERVER")
        return Look(pid, cluster.alive(broker), memory, descriptors, unforeseen, log_size, busy_ms)
    except (OSError, http.client.HTTPException):  # it ended, or does so just now
        return Look(pid, False, 0.0, 0, 0.0, 0)


def _metrics(cluster: LocalCluster, broker: int) -> list[str]:
    connection = http.client.HTTPConnection(cluster.admin_url(broker).removeprefix("http://"), timeout=20)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()


def _sum_of(metrics: list[str], name: str, label: str = "") -> float:
    return sum(float(line.rpartition(" ")[2]) for line in metrics if line.startswith(name) and label in line)


def wrongs(cluster: LocalCluster, broker: int, before: Look, now: Look) -> list[str]:
    """What went wrong with a broker between two looks."""
    if not now.alive or now.pid != before.pid:
        return [f"broker {broker} ended by itself:\n{_log(cluster, broker)[-LOG_MAX:]}"]
    found = []
    if now.unforeseen > before.unforeseen:
        found.append(f"broker {broker} answered UNKNOWN_SERVER_ERROR {now.unforeseen - before.unforeseen:g} times")
    log = _log(cluster, broker)[before.log_size : now.log_size]
    at = log.find("Traceback")
    if at >= 0:
        found.append(f"broker {broker} has a traceback in its log:\n{log[max(0, at - 500) : at + LOG_MAX]}")
    return found


def _log(cluster: LocalCluster, broker: int) -> str:
    return cluster.log_path(broker).read_bytes().decode("latin-1")  # a byte is a character, so that places hold
