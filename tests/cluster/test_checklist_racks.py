"""docs/checklist.md, section C, 37 to 41: 5 brokers, 2 racks, 1 topic, 10 partitions, replication factor 3."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import pytest

from ottla.local import LocalCluster
from ottla.local.broker import BrokerProcess
from ottla.local.processes import Reaper
from ottla.wire.errors import NotEnoughReplicas
from tests.support.cluster import wait_until
from tests.support.observer import SHORT, WAIT_S, Observer, observed
from tests.support.raw_client import one_record

pytestmark = pytest.mark.cluster

TOPIC = "picture"
STRICT = "strict"
VALUES = [b"%d" % n for n in range(2000)]

RACKS = {0: "rack1", 1: "rack1", 2: "rack1", 3: "rack2", 4: "rack2"}
"""Not by turns, as a local cluster has them: then the ids alone would alternate between the racks, and no test could fail."""


@contextmanager
def racks_of_the_picture() -> Iterator[None]:
    """Every local cluster that is made meanwhile has its brokers in these racks."""
    prepare = BrokerProcess.prepare

    def prepare_in_rack(self: BrokerProcess, zookeeper: str, more: Mapping[str, str], reaper: Reaper) -> None:
        self.rack = RACKS[self.id]
        prepare(self, zookeeper, more, reaper)

    with mock.patch.object(BrokerProcess, "prepare", prepare_in_rack):
        yield


@pytest.fixture(scope="module")
def seen() -> Iterator[Observer]:
    """The cluster of the picture. The last test takes a rack away from it for good."""
    with (
        racks_of_the_picture(),
        LocalCluster(brokers=5, broker_config=SHORT) as cluster,
        observed(cluster) as observer,
    ):
        observer.admin.create_topic(TOPIC, partitions=10, replication_factor=3, timeout=WAIT_S)
        observer.produce(TOPIC, VALUES)
        yield observer


def in_rack(seen: Observer, rack: str) -> list[int]:
    return [broker for broker in seen.cluster.brokers if seen.cluster.rack(broker) == rack]


def test_s37_five_brokers_stand_in_two_racks(seen: Observer) -> None:
    racks = {broker: seen.read(f"/brokers/ids/{broker}")["rack"] for broker in seen.broker_ids()}
    assert racks == RACKS
    assert {broker.id: broker.rack for broker in seen.metadata(0).brokers} == racks


def test_s38_one_topic_has_ten_partitions_of_three_replicas(seen: Observer) -> None:
    replicas = list(seen.assignment(TOPIC).values())
    assert len(replicas) == 10
    assert all(len(set(brokers)) == 3 for brokers in replicas)
    seen.wait_in_sync(TOPIC)


def test_s39_first_replicas_alternate_between_the_racks(seen: Observer) -> None:
    sequence = [replicas[0] for replicas in seen.assignment(TOPIC).values()]
    assert sequence[:5] == sequence[5:], "the same five brokers by turns"
    assert sorted(sequence[:5]) == [0, 1, 2, 3, 4]
    ring = [seen.cluster.rack(broker) for broker in sequence[:5]]
    same = sum(ring[place] == ring[(place + 1) % 5] for place in range(5))
    assert same == 1, "three brokers of one rack and two of the other can alternate but for one step"


def test_s40_replicas_and_leaders_are_even_and_every_partition_is_in_both_racks(seen: Observer) -> None:
    assignment = seen.assignment(TOPIC)
    replicas = Counter(broker for brokers in assignment.values() for broker in brokers)
    assert replicas == dict.fromkeys(range(5), 6)
    assert Counter(seen.leader(TOPIC, p) for p in assignment) == dict.fromkeys(range(5), 2)
    for brokers in assignment.values():
        assert {seen.cluster.rack(broker) for broker in brokers} == {"rack1", "rack2"}


def test_s41_without_rack_1_everything_is_read_and_written(seen: Observer) -> None:
    seen.admin.create_topic(
        STRICT, partitions=10, replication_factor=3, config={"min.insync.replicas": "2"}, timeout=WAIT_S
    )
    seen.produce(STRICT, VALUES)
    lost = in_rack(seen, "rack1")
    assert len(lost) == 3
    for broker in lost:
        seen.cluster.kill(broker)
    left = in_rack(seen, "rack2")
    for topic in (TOPIC, STRICT):
        wait_until(lambda topic=topic: seen.works(topic), WAIT_S)  # type: ignore[misc]
        assert all(seen.leader(topic, p) in left for p in range(10))
    found = seen.consume(TOPIC, len(VALUES))
    assert sorted((value for part in found.values() for value in part), key=int) == VALUES
    for partition in range(10):
        seen.produce(TOPIC, [b"without rack 1"], partition)
    assert sum(map(len, seen.consume(TOPIC, len(VALUES) + 10).values())) == len(VALUES) + 10
    # Where two replicas must have a record, the partitions with one replica in rack 2 refuse rather than promise too much.
    strict = seen.assignment(STRICT)
    alone = [p for p, brokers in strict.items() if len(set(brokers) & set(left)) == 1]
    together = [p for p in strict if p not in alone]
    assert alone
    assert together
    for partition in together:
        seen.produce(STRICT, [b"without rack 1"], partition)
    with seen.connect(seen.leader(STRICT, alone[0])) as client:
        refused = client.produce(STRICT, one_record(), alone[0], acks=-1)
    assert refused.error_code == NotEnoughReplicas.code
