"""Metadata that is written once: the same bytes as ever, never out of date, and no more memory than is allowed."""

import os

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from ottla.broker.cluster_view import DEPARTED_S, ClusterView
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest
from ottla.wire.dialect import IncomingRequest
from ottla.wire.kafka.cluster import MetadataContext
from ottla.wire.kafka.dialect import KafkaDialect
from ottla.wire.kafka.topic_ids import to_text
from ottla.wire.kafka.written_answers import ANSWER_BYTES, WrittenAnswers
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.requests import MetadataRequest, TopicMetadata
from tests.support.kafka_dialect import as_they_are
from tests.support.kafka_values import plain

TOPIC_ID = to_text(os.urandom(16))


class Cluster:
    """What a broker knows, and what it answers by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.view = ClusterView("c", lambda: self.now)
        self.dialect = KafkaDialect(self.view, as_they_are)
        self.version = 0

    def told(self, leader: int, brokers: tuple[int, ...] = (1, 2), partitions: int = 2) -> None:
        self.version += 1
        live = [BrokerEndpoint(broker, "host", 9000 + broker) for broker in brokers]
        states = [
            PartitionState("t", TOPIC_ID, number, leader, self.version, [1, 2], [1, 2], self.version, 1, [])
            for number in range(partitions)
        ]
        topics = [TopicConfig("t", TOPIC_ID, {})]
        self.view.update(UpdateMetadataRequest(1, 1, 1, not self.view.known, live, topics, states, [], self.version))

    def bytes_of(self, version: int = 12, unknown: tuple[bytes, ...] = (), listener: str = "X") -> bytes:
        request = IncomingRequest(
            self.dialect, 3, version, 7, "c", MetadataRequest(["t"]), [], MetadataContext(unknown)
        )
        pieces = self.dialect.encode_response(request, self.view.describe(["t"], listener))
        return b"".join(map(bytes, pieces))

    def leaders(self, version: int = 12) -> list[int]:
        answer = self.bytes_of(version)
        entity, _ = entity_reader(load_response_schema(3, version))(answer[9 if version >= 9 else 8 :], 0)
        return [one["leader_id"] for one in plain(entity)["topics"][0]["partitions"]]


def test_a_changed_view_is_told_at_once() -> None:
    cluster = Cluster()
    for leader in (1, 2, 1, 2):
        cluster.told(leader)
        for version in (4, 12, 4, 12):
            assert cluster.leaders(version) == [leader, leader]
    cluster.told(1, partitions=3)
    assert cluster.leaders() == [1, 1, 1]


def test_what_changes_in_place_without_a_word_is_told_too() -> None:
    cluster = Cluster()
    cluster.told(1)
    before = cluster.bytes_of()
    topic = cluster.view.topic("t")
    assert isinstance(topic, TopicMetadata)
    topic.partitions[0].leader = 2
    assert (cluster.bytes_of() != before, cluster.leaders()) == (True, [2, 1])


def test_a_broker_that_left_is_named_only_for_a_moment() -> None:
    cluster = Cluster()
    cluster.told(1)
    cluster.told(1, brokers=(1,))
    with_both = cluster.bytes_of()
    assert cluster.bytes_of() == with_both
    cluster.now += DEPARTED_S
    assert len(cluster.bytes_of()) < len(with_both)


@pytest.mark.parametrize("version", range(14))
def test_what_was_written_before_is_what_would_be_written(version: int) -> None:
    cluster = Cluster()
    cluster.told(1)
    first, again = cluster.bytes_of(version), cluster.bytes_of(version)
    assert first == again
    fresh = Cluster()
    fresh.told(1)
    assert first == fresh.bytes_of(version)
    if version >= 10:
        assert len(cluster.bytes_of(version, unknown=(os.urandom(16),))) > len(first)


def test_memory_has_a_limit_and_who_was_not_wanted_longest_goes() -> None:
    kept = WrittenAnswers(kept_bytes=3000)
    keys = [kept.key(number, (), MetadataRequest([])) for number in range(5)]
    for key in keys[:2]:
        kept.keep(key, b"x" * 1000)
    assert kept.find(keys[0]) is not None
    kept.keep(keys[2], b"x" * 1000)
    assert [kept.find(key) is not None for key in keys] == [True, False, True, False, False]
    assert kept.size <= 3000
    kept.keep(keys[4], b"x" * 5000)
    assert kept.find(keys[4]) is None
    large = WrittenAnswers()
    large.keep(keys[0], b"x" * (ANSWER_BYTES + 1))
    assert (len(large), large.size) == (0, 0)
