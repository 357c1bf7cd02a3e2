"""A slice whose leader dies while it is read."""

from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import read_options
from ottla.spark_jobs.slice_reader import read_slice
from tests.support.spark import produce
from tests.support.workload import leader_of, make_topic

COUNT = 200_000
"""Of 100 bytes each: more than is fetched ahead."""


@pytest.fixture(scope="module")
def three() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as cluster:
        yield cluster


def test_a_slice_goes_on_with_the_next_leader(three):
    topic = make_topic(three, partitions=1)
    produce(three.bootstrap, topic, [b"%0100d" % number for number in range(COUNT)])
    with Admin(bootstrap_servers=three.bootstrap) as admin:
        leader = leader_of(admin, topic)
    options = read_options({"bootstrap.servers": three.bootstrap, "subscribe": topic})
    reading = read_slice(options, ("offset", "value"), Slice(topic, 0, 0, COUNT))
    found = [next(reading)]
    three.kill(leader)
    found += reading
    offsets = [offset for batch in found for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(COUNT))
    values = [int(value) for batch in found for value in batch.column("value").to_pylist()]
    assert values == list(range(COUNT))
