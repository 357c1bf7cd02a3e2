"""Fixtures of the tests on live clusters.

All of them share these, so they stay in one folder; the first word of a file's name says what it is about (``checklist`` is
docs/checklist.md, ``failures`` what breaks, ``bad`` what is sent by mistake or malice, ``client``, ``cli``, ``zk``, ...).
"""

import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from tests.support.client_topics import WAIT_S, MakeTopic, write
from tests.support.observer import SHORT, Observer, observed
from tests.support.victim import Victim, running_victim
from tests.support.workload import make_topic as make_replicated_topic


@pytest.fixture
def name() -> str:
    """A topic's name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"


# --- a cluster that a file stops and starts brokers of -------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Observer]:
    """As many brokers as the test file's BROKERS says."""
    with LocalCluster(brokers=request.module.BROKERS, broker_config=SHORT) as cluster, observed(cluster) as observer:
        yield observer


@pytest.fixture
def seen(running: Observer) -> Iterator[Observer]:
    """The cluster with all its brokers and a controller; whatever a test stops is started again."""
    running.start_all()
    running.wait_controller()
    yield running
    running.start_all()


# --- a cluster of the test file's own ------------------------------------------------------------------------------------

THREE_RACKS = {
    "brokers": 3,
    "racks": 3,
    "broker_config": {"log.retention.check.interval.ms": "100", "log.segment.bytes.min": "1000"},
}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """As the test file's CLUSTER says; else three brokers that look after retention all the time."""
    with LocalCluster(**getattr(request.module, "CLUSTER", THREE_RACKS)) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """Three partitions with three copies."""
    return make_replicated_topic(cluster)


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as opened:
        yield opened


# --- topics on the broker that all share ---------------------------------------------------------------------------------


@pytest.fixture
def bootstrap(cluster1: LocalCluster) -> str:
    return cluster1.bootstrap


@pytest.fixture
def make_topic(bootstrap: str) -> MakeTopic:
    """Creates a topic of the test's own."""

    def make(partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"client-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap_servers=bootstrap) as admin:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            admin.create_topic(name, partitions=partitions, config=settings, timeout=WAIT_S)
        return name

    return make


@pytest.fixture
def make_filled_topic(bootstrap: str, make_topic: MakeTopic) -> MakeTopic:
    """Creates a topic of the test's own, with ``records`` records 0, 1, 2, ... in each partition, in batches of 10."""

    def make(records: int = 0, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = make_topic(partitions, name, **config)
        for partition in range(partitions):
            write(bootstrap, name, range(records), partition)
        return name

    return make


# --- a broker under attack -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """One broker that all attacks share, so that what one of them leaves behind disturbs the next."""
    with running_victim() as running:
        yield running


@pytest.fixture
def unharmed(victim: Victim) -> Iterator[Victim]:
    """The victim, watched during the test; the test fails if anybody but the attacker felt the attack."""
    with victim.unharmed():
        yield victim
