"""The healthy client: a process that writes a record with acks=all, waits for it, and notes how long that took."""

import time
from array import array
from multiprocessing.connection import Connection
from typing import NamedTuple

from ottla.client import Producer
from ottla.wire.errors import OttlaError

TOPIC = "healthy"
PAUSE_S = 0.005
TIMEOUT_S = 30.0
STOP = "stop"


class Heard(NamedTuple):
    latencies_ms: dict[str, list[float]]
    """By the phase in which a record was sent."""
    acked: int
    failures: list[str]


def write(phases: Connection, bootstrap: str) -> None:
    """The process: told the names of phases as they come, until STOP; then it gives back what it heard."""
    latencies: dict[str, array[float]] = {}
    acked, failures = 0, []
    phase: str = phases.recv()
    with Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=0) as producer:
        while phase != STOP:
            began = time.perf_counter()
            try:
                producer.send(TOPIC, b"healthy %d" % acked, key=b"%d" % acked).result(TIMEOUT_S)
                acked += 1
                latencies.setdefault(phase, array("d")).append((time.perf_counter() - began) * 1000)
            except OttlaError as error:
                failures.append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_S)
            while phases.poll():
                phase = phases.recv()
    phases.send(Heard({name: list(found) for name, found in latencies.items()}, acked, failures[:100]))
