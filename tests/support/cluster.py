"""Live clusters for tests."""

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire.errors import OttlaError
from ottla.wire.requests import MetadataRequest, MetadataResponse
from tests.support.machine import scaled
from tests.support.preloaded_processes import run_ottla
from tests.support.raw_client import Hung, RawClient


@pytest.fixture(scope="session")
def cluster1() -> Iterator[LocalCluster]:
    """One broker for the whole run, shared: take topics of your own, and kill nothing."""
    with LocalCluster(brokers=1, broker_config={"group.min.session.timeout.ms": "1000"}) as cluster:
        yield cluster


def wait_until(condition: Callable[[], bool], timeout_s: float = scaled(20.0)) -> None:
    """Return as soon as the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true after {timeout_s} s"
        time.sleep(0.02)


def complete(cluster: LocalCluster) -> None:
    """Start, resume and wait until every broker serves and every broker's metadata names all of them."""
    for broker in cluster.brokers:
        if not cluster.alive(broker):
            cluster.start(broker, scaled(60.0))
        cluster.resume(broker)
    cluster.wait_ready(scaled(60.0))
    wait_until(lambda: all(brokers_known_to(cluster, broker) == cluster.brokers for broker in cluster.brokers))


def brokers_known_to(cluster: LocalCluster, broker: int) -> list[int]:
    """The live brokers, as one of them tells; none if it does not answer."""
    host, _, port = cluster.address(broker).rpartition(":")
    try:
        with RawClient((host, int(port))) as client:
            return sorted(known.id for known in client.ask(MetadataRequest([]), MetadataResponse).brokers)
    except (OSError, OttlaError, Hung):
        return []


def ottla(*arguments: str, bootstrap: str = "127.0.0.1:1", stdin: bytes = b"") -> "subprocess.CompletedProcess[str]":
    """Run the command as a user's shell does, its output piped."""
    environment = {**child_environment(), "OTTLA_BOOTSTRAP": bootstrap}
    done = run_ottla(arguments, environment, stdin, scaled(90))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
