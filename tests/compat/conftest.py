"""Fixtures of the tests with Kafka's own clients: one cluster of three brokers for all of them.

They are part of `make test`. kcat is no Python package: `apt-get install kcat` brings it, and its tests are skipped, loudly,
where it is not there.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster

MakeTopic = Callable[..., str]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as running:
        yield running


@pytest.fixture
def bootstrap(kafka_cluster: LocalCluster) -> str:
    return kafka_cluster.bootstrap


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"kafka-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(bootstrap: str, name: str) -> MakeTopic:
    """Creates a topic with three copies."""

    def make(partitions: int = 1, **config: str) -> str:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic(name, partitions=partitions, replication_factor=3, config=settings)
        return name

    return make
