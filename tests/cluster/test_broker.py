"""What a broker answers: errors by their numbers, limits of a fetch, topics and their settings, znodes, health, properties."""

import threading
import time
from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MessageTooLarge,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import (
    FetchPart,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.support.batches import split_batches
from tests.support.broker_requests import WAIT_S, address, batch, leader_of
from tests.support.raw_client import RawClient, framed

pytestmark = pytest.mark.cluster

# --- errors ---


def test_s68_unknown_topic_and_partition_are_error_3(cluster: LocalCluster, admin: Admin, name: str) -> None:
    assert UnknownTopicOrPartition.code == 3
    admin.create_topic(name)
    with leader_of(cluster, admin, name) as client:
        for topic, partition in (("nowhere", 0), (name, 1)):
            response, _ = client.fetch(topic, 0, partition=partition)
            assert response.parts[0].error_code == 3
            assert client.produce(topic, batch(b"v"), partition).error_code == 3
        metadata = client.ask(MetadataRequest(["nowhere", name]), MetadataResponse)
        assert {topic.name: topic.error_code for topic in metadata.topics} == {"nowhere": 3, name: 0}


def test_s61_s70_who_does_not_lead_answers_error_6_and_says_who_does(
    cluster: LocalCluster, admin: Admin, name: str
) -> None:
    topic_id = admin.create_topic(name)
    leader = admin.describe_topic(name).partitions[0].leader
    with RawClient(address(cluster, (leader + 1) % 3)) as client:
        produced = client.produce(name, batch(b"v"))
        fetched = client.fetch(name, 0)[0].parts[0]
    assert produced.error_code == fetched.error_code == NotLeaderOrFollower.code == 6
    assert produced.leader == fetched.leader == leader
    assert produced.topic_id == fetched.topic_id == topic_id


def test_s67_batch_above_max_message_bytes_is_error_10(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"max.message.bytes": "500"})
    with leader_of(cluster, admin, name) as client:
        assert client.produce(name, batch(b"x" * 600)).error_code == MessageTooLarge.code == 10
        assert client.produce(name, batch(b"x" * 100)).base_offset == 0


def test_s34_replication_factor_above_the_brokers_is_error_38(admin: Admin, name: str) -> None:
    assert InvalidReplicationFactor.code == 38
    for factor in (4, 0, -2):
        with pytest.raises(InvalidReplicationFactor):
            admin.create_topic(name, replication_factor=factor)
    assert name not in admin.list_topics()


def test_senseless_partitions_and_assignments_are_refused(admin: Admin, name: str) -> None:
    for partitions in (0, -2, 1_000_000):
        with pytest.raises(InvalidPartitions):
            admin.create_topic(name, partitions=partitions)
    for assignment in ([[7]], [[0, 0]], [[0], []]):
        with pytest.raises(InvalidReplicaAssignment):
            admin.create_topic(name, assignment=assignment)
    admin.create_topic(name, assignment=[[2], [0]])
    assert [partition.leader for partition in admin.describe_topic(name).partitions] == [2, 0]


def test_topic_that_exists_is_not_created_again(admin: Admin, name: str) -> None:
    first = admin.create_topic(name)
    with pytest.raises(TopicAlreadyExists, match=name):
        admin.create_topic(name, partitions=5)
    assert admin.describe_topic(name).topic_id == first
    assert len(admin.describe_topic(name).partitions) == 1


def test_validate_only_checks_and_creates_nothing(admin: Admin, name: str) -> None:
    admin.create_topic(name, validate_only=True)
    assert name not in admin.list_topics()
    with pytest.raises(InvalidConfig):
        admin.create_topic(name, config={"retention.ms": "soon"}, validate_only=True)


# --- fetch ---


def fetch(client: RawClient, request: FetchRequest) -> FetchResponse:
    return client.ask(request, FetchResponse)


@pytest.fixture
def filled(cluster: LocalCluster, admin: Admin, name: str) -> Iterator[tuple[str, RawClient, int]]:
    """A topic of 3 partitions on one broker, 10 batches of the same size in each; a connection; the size of a batch."""
    admin.create_topic(name, assignment=[[1], [1], [1]])
    with RawClient(address(cluster, 1)) as client:
        one = batch(b"x" * 1000)
        for partition in range(3):
            for _ in range(10):
                client.produce(name, one, partition).raise_if_failed()
        yield name, client, len(one)


def test_s65_one_fetch_reads_many_partitions_from_their_own_offsets(filled: tuple[str, RawClient, int]) -> None:
    topic, client, size = filled
    parts = [FetchPart(topic, 0, 8, 2**20), FetchPart(topic, 1, 10, 2**20), FetchPart(topic, 2, 5, 2**20)]
    client.send(framed(FetchRequest(0, 1, 2**20, parts)))
    answer = client.answer()
    assert answer.error is None
    batches = split_batches(answer.tail)
    assert [each.base_offset for each in batches] == [8, 9, 5, 6, 7, 8, 9]
    client.send(framed(FetchRequest(0, 1, 2**20, parts)))
    client.answer()
    response = fetch(client, FetchRequest(0, 1, 2**20, parts))
    assert [part.size for part in response.parts] == [2 * size, 0, 5 * size]
    assert [part.high_watermark for part in response.parts] == [10, 10, 10]


def test_s66_max_bytes_bound_a_partition_and_a_whole_fetch(filled: tuple[str, RawClient, int]) -> None:
    topic, client, size = filled
    bounded = [FetchPart(topic, partition, 0, 3 * size + 10) for partition in range(3)]
    response = fetch(client, FetchRequest(0, 1, 2**20, bounded))
    assert [part.size for part in response.parts] == [3 * size] * 3
    response = fetch(client, FetchRequest(0, 1, 4 * size, bounded))
    assert [part.size for part in response.parts] == [3 * size, size, 0]
    response = fetch(client, FetchRequest(0, 1, 1, [FetchPart(topic, partition, 0, 1) for partition in range(3)]))
    assert [part.size for part in response.parts] == [size, 0, 0]  # one batch comes in any case


def test_s66_min_bytes_and_max_wait_make_a_fetch_wait(
    cluster: LocalCluster, filled: tuple[str, RawClient, int]
) -> None:
    topic, client, size = filled
    at_end = [FetchPart(topic, 0, 10, 2**20)]
    begun = time.monotonic()
    assert fetch(client, FetchRequest(300, 1, 2**20, at_end)).parts[0].size == 0
    assert time.monotonic() - begun >= 0.29

    answers: list[FetchResponse] = []
    waiting = threading.Thread(
        target=lambda: answers.append(fetch(client, FetchRequest(60_000, 2 * size, 2**20, at_end)))
    )
    waiting.start()
    with RawClient(address(cluster, 1)) as other:
        other.produce(topic, batch(b"x" * 1000))
        waiting.join(0.2)
        assert waiting.is_alive()  # one batch is less than it asked for
        other.produce(topic, batch(b"x" * 1000))
    waiting.join(WAIT_S)
    assert [part.size for part in answers[0].parts] == [2 * size]


def test_s64_answers_come_in_the_order_of_the_requests(filled: tuple[str, RawClient, int]) -> None:
    topic, client, _ = filled
    waits = FetchRequest(300, 1, 2**20, [FetchPart(topic, 0, 10, 2**20)])
    requests = [waits, MetadataRequest([topic]), waits, MetadataRequest([])]
    client.send(b"".join(framed(request, correlation_id=n) for n, request in enumerate(requests)))
    assert [client.answer().correlation_id for _ in requests] == [0, 1, 2, 3]
