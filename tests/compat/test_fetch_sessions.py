"""Fetch sessions (KIP-227) on a live cluster: by raw frames, and as kafka-python uses them."""

import urllib.request
import uuid
from functools import partial
from typing import Any

import kafka
import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from tests.compat.conftest import MakeTopic
from tests.support.cluster import wait_until
from tests.support.kafka_clients import WAIT_S
from tests.support.raw_kafka import RawKafka

FETCH = 1
BY_NAME, BY_ID = 12, 16


class SessionClient:
    """Fetches of one topic in one version, as they are told."""

    def __init__(self, address: str, version: int, topic: str, topic_id: bytes) -> None:
        self.raw = RawKafka(address)
        self.version = version
        self.topic = {"topic": topic, "topic_id": uuid.UUID(bytes=topic_id)}

    def fetch(
        self, session: int, epoch: int, places: dict[int, int], forgotten: tuple[int, ...] = (), wait_ms: int = 0
    ) -> Any:
        parts = [
            {
                "partition": partition, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1,
                "log_start_offset": -1, "partition_max_bytes": 1 << 20, "high_watermark": 0,
            }
            for partition, offset in places.items()
        ]  # fmt: skip
        values = {
            "replica_id": -1, "max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0,
            "session_id": session, "session_epoch": epoch, "rack_id": "",
            "topics": [{**self.topic, "partitions": parts}] if parts else [],
            "forgotten_topics_data": [{**self.topic, "partitions": list(forgotten)}] if forgotten else [],
        }  # fmt: skip
        return self.raw.ask(FETCH, self.version, values)


def told(answer: Any) -> dict[int, tuple[int, int, bool]]:
    """Partition to error, high watermark, and whether there are records."""
    return {
        part["partition_index"]: (part["error_code"], part["high_watermark"], bool(part["records"]))
        for topic in answer["responses"]
        for part in topic["partitions"]
    }


def _client(bootstrap: str, topic: str, version: int) -> SessionClient:
    """Of a topic whose partitions all have one leader."""
    with RawKafka(bootstrap.split(",")[0]) as raw:
        asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        answer = raw.ask(3, 12, {**asked, "include_topic_authorized_operations": False})
    (found,) = answer["topics"]
    (leader,) = {partition["leader_id"] for partition in found["partitions"]}
    (address,) = [f"{one['host']}:{one['port']}" for one in answer["brokers"] if one["node_id"] == leader]
    return SessionClient(address, version, topic, found["topic_id"])


@pytest.fixture
def led_by_one(bootstrap: str, name: str) -> str:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, 4, assignment=[[0, 1, 2]] * 4)
    return name


@pytest.mark.parametrize("version", [7, BY_NAME, 13, BY_ID, 18])
def test_session_of_raw_frames(bootstrap: str, led_by_one: str, version: int) -> None:
    client = _client(bootstrap, led_by_one, version)
    answer = client.fetch(0, 0, {0: 0, 1: 0, 2: 0, 3: 0})
    session = answer["session_id"]
    assert (answer["error_code"], session > 0) == (0, True)
    assert told(answer) == dict.fromkeys(range(4), (0, 0, False))
    answer = client.fetch(session, 1, {})
    assert (answer["session_id"], answer["responses"]) == (session, [])
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:  # in columns: they are made into Kafka's format
        producer.send(led_by_one, b"news", partition=2).result(WAIT_S)
    answer = client.fetch(session, 2, {}, wait_ms=10_000)
    assert told(answer) == {2: (0, 1, True)}
    assert answer["responses"][0]["partitions"][0]["records"][16] == 2, "magic"
    assert told(client.fetch(session, 3, {})) == {2: (0, 1, True)}, "it has not moved, and gets it again"
    assert told(client.fetch(session, 4, {2: 1}, forgotten=(0, 1))) == {}
    assert client.fetch(session, 9, {})["error_code"] == 71
    other = _client(bootstrap, led_by_one, version)
    assert (other.fetch(session, 5, {})["error_code"], client.fetch(session, 5, {})["error_code"]) == (70, 0)
    answer = client.fetch(session, -1, {})
    assert (answer["error_code"], answer["session_id"]) == (0, 0)
    assert client.fetch(session, 6, {})["error_code"] == 70
    for each in (client, other):
        each.raw.close()


@pytest.mark.parametrize(("version", "error"), [(BY_NAME, 3), (BY_ID, 100)])
def test_topic_that_is_made_anew_under_a_session(bootstrap: str, led_by_one: str, version: int, error: int) -> None:
    client = _client(bootstrap, led_by_one, version)
    session = client.fetch(0, 0, {0: 0, 1: 0})["session_id"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(led_by_one)
    answer = client.fetch(session, 1, {}, wait_ms=10_000)
    assert {code for code, _, _ in told(answer).values()} == {error}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(led_by_one, 4, assignment=[[0, 1, 2]] * 4)
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        producer.send(led_by_one, b"anew", partition=1).result(WAIT_S)
    seen: dict[int, tuple[int, int, bool]] = {}
    epoch = 1
    if version == BY_ID:
        client.topic = _client(bootstrap, led_by_one, version).topic  # as a client learns it
        epoch += 1
        answer = client.fetch(session, epoch, {0: 0, 1: 0}, wait_ms=5000)
    while (0, 1, True) not in seen.values() and epoch < 100:
        epoch += 1
        seen |= told(client.fetch(session, epoch, {}, wait_ms=100))
    assert seen[1] == (0, 1, True)
    client.raw.close()


def test_session_goes_on_with_names_if_it_began_with_them(bootstrap: str, led_by_one: str) -> None:
    client = _client(bootstrap, led_by_one, BY_NAME)
    session = client.fetch(0, 0, {0: 0})["session_id"]
    client.version = BY_ID
    assert client.fetch(session, 1, {})["error_code"] == 106
    client.raw.close()


def test_kafka_python_uses_sessions(kafka_cluster: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=30)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=kafka_cluster.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=50
    )
    places = [kafka.TopicPartition(topic, partition) for partition in range(30)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    seen: set[bytes] = set()
    with Producer(bootstrap_servers=kafka_cluster.bootstrap, acks="all") as producer:
        for number in range(60):
            producer.send(topic, b"%d" % number, partition=number % 30).result(WAIT_S)
            if number % 10 == 0:
                seen |= _values(consumer)
    wait_until(lambda: len(seen.__ior__(_values(consumer))) == 60, WAIT_S)
    handlers: Any = consumer._fetcher._session_handlers
    assert {handler.next_metadata.session_id > 0 for handler in handlers.values()} == {True}
    assert min(handler.next_metadata.epoch for handler in handlers.values()) > 2

    def all_are_kept() -> bool:
        """A partition whose records are not polled yet is forgotten for so long."""
        assert _values(consumer) == set()
        return sum(_kept(kafka_cluster, broker) for broker in range(3)) >= 30

    wait_until(all_are_kept, WAIT_S)
    assert consumer.end_offsets(places) == dict.fromkeys(places, 2)
    assert {consumer.highwater(place) for place in places} == {2}
    consumer.close()


def _values(consumer: Any) -> set[bytes]:
    return {record.value for records in consumer.poll(timeout_ms=200).values() for record in records}


def _kept(cluster: LocalCluster, broker: int) -> float:
    with urllib.request.urlopen(f"{cluster.admin_url(broker)}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("ottla_fetch_session_partitions ")))


def test_kafka_python_reads_everything_though_its_leaders_are_killed(name: str) -> None:
    """A session ends with its broker: the client begins anew with the next leader, and again with the old one."""
    with LocalCluster(brokers=3) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic(name, partitions=6, replication_factor=3, config={"min.insync.replicas": "2"})
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=cluster.bootstrap,
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=1000,
        )
        places = [kafka.TopicPartition(name, partition) for partition in range(6)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        seen: list[bytes] = []

        def read(count: int) -> bool:
            polled = consumer.poll(timeout_ms=200)
            seen.extend(record.value for records in polled.values() for record in records)
            return len(seen) >= count

        with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for turn in range(3):
                for number in range(60 * turn, 60 * turn + 60):
                    producer.send(name, b"%d" % number, partition=number % 6)
                producer.flush(WAIT_S)
                wait_until(partial(read, 60 * turn + 60), WAIT_S)
                cluster.kill(turn)
                cluster.start(turn)
        assert sorted(map(int, seen)) == list(range(180))
        consumer.close()
