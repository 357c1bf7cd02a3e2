"""One broker after the other: topics, their settings, what stands in ZooKeeper, and what a restart keeps."""

import contextlib
import json
import time

import pytest
from kazoo.client import KazooClient

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import (
    InvalidConfig,
    MessageTooLarge,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import (
    MetadataRequest,
    MetadataResponse,
)
from tests.support.broker_requests import WAIT_S, address, leader_of
from tests.support.cluster import wait_until
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.cluster

# --- topics and their settings ---


@pytest.mark.parametrize(
    "config",
    [
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"segment.bytes": "0"},
        {"segment.bytes": "999"},
        {"max.message.bytes": "1"},
        {"message.timestamp.type": "Never"},
        {"cleanup.policy": "burn"},
        {"retention": "1"},
    ],
)
def test_topic_config_is_validated_by_name(admin: Admin, name: str, config: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(config))):
        admin.create_topic(name, config=config)
    assert name not in admin.list_topics()


def test_s42_deleted_topic_is_gone_and_its_successor_shows_none_of_its_records(
    cluster: LocalCluster, admin: Admin, name: str
) -> None:
    ids = []
    for life in range(3):
        ids.append(admin.create_topic(name, partitions=3))
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            told = producer.send_many(name, [b"life %d" % life] * 30).result(timeout=WAIT_S)
            assert max(each.offset for each in told) == 9
        with Consumer(name, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            values: list[bytes] = []
            while len(values) < 30:
                values += [record.value for record in consumer.poll(timeout=WAIT_S)]
        assert set(values) == {b"life %d" % life}
        admin.delete_topic(name)
        with pytest.raises(UnknownTopicOrPartition):
            admin.describe_topic(name)
    assert len(set(ids)) == 3
    wait_until(lambda: not any(list(cluster.data_path(i).glob(f"{name}-*")) for i in cluster.brokers), WAIT_S)


def test_retention_ms_deletes_old_segments(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"retention.ms": "60000", "segment.bytes": "1000"})
    now = int(time.time() * 1000)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for n in range(20):
            age_ms = 3_600_000 if n < 10 else 0
            producer.send(name, b"x" * 400, timestamp_ms=now - age_ms).result(timeout=WAIT_S)
    where = TopicPartition(name, 0)
    wait_until(lambda: admin.earliest_offsets(name)[where] >= 9, WAIT_S)
    assert admin.earliest_offsets(name)[where] <= 10
    assert admin.latest_offsets(name)[where] == 20
    with leader_of(cluster, admin, name) as client:
        assert client.fetch(name, 0)[0].parts[0].error_code == OffsetOutOfRange.code


def test_retention_bytes_and_segment_bytes_bound_what_is_kept(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"retention.bytes": "3000", "segment.bytes": "1000"})
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for _ in range(50):
            producer.send(name, b"x" * 400).result(timeout=WAIT_S)
    leader = admin.describe_topic(name).partitions[0].leader
    folder = cluster.data_path(leader) / f"{name}-0"

    def sizes() -> list[int]:
        """Of the segments; a file may go while they are looked at."""
        with contextlib.suppress(FileNotFoundError):
            return [file.stat().st_size for file in folder.glob("*.log")]
        return sizes()

    wait_until(lambda: sum(sizes()) <= 4100, WAIT_S)
    assert all(size <= 1000 for size in sizes())
    assert admin.earliest_offsets(name)[TopicPartition(name, 0)] > 35


def test_topic_without_settings_of_its_own_keeps_everything(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(name, b"old", timestamp_ms=int(time.time() * 1000) - 3_600_000).result(timeout=WAIT_S)
    assert admin.earliest_offsets(name)[TopicPartition(name, 0)] == 0


# --- metadata, znodes, restarts ---


def test_s58_s60_metadata_is_the_same_from_every_broker_and_of_the_topics_asked_for(
    cluster: LocalCluster, admin: Admin, name: str
) -> None:
    admin.create_topic(name, partitions=6, config={"retention.ms": "60000"})
    admin.create_topic(f"{name}-other")
    told = []
    for broker in cluster.brokers:
        with RawClient(address(cluster, broker)) as client:
            told.append(client.ask(MetadataRequest([name]), MetadataResponse))
            everything = client.ask(MetadataRequest(None), MetadataResponse)
            assert {name, f"{name}-other"} <= {topic.name for topic in everything.topics}
            assert client.ask(MetadataRequest([]), MetadataResponse).topics == []
    assert told[0] == told[1] == told[2]
    assert [topic.name for topic in told[0].topics] == [name]
    assert [(broker.id, broker.rack) for broker in sorted(told[0].brokers, key=lambda b: b.id)] == [
        (0, "rack1"), (1, "rack2"), (2, "rack3"),
    ]  # fmt: skip


def test_s33_leaders_are_spread_by_turns(admin: Admin, name: str) -> None:
    admin.create_topic(name, partitions=9)
    leaders = [partition.leader for partition in admin.describe_topic(name).partitions]
    assert sorted(leaders) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_s29_znodes_are_kafkas(cluster: LocalCluster, admin: Admin, name: str) -> None:
    topic_id = admin.create_topic(name, partitions=2, config={"retention.ms": "60000"})
    described = admin.describe_topic(name)
    zk = KazooClient(hosts=cluster.zookeeper)
    zk.start(timeout=WAIT_S)
    try:

        def read(path: str) -> dict[str, object]:
            found = json.loads(zk.get(path)[0])
            assert isinstance(found, dict)
            return found

        assert sorted(zk.get_children("/brokers/ids")) == ["0", "1", "2"]
        host, port = address(cluster, 0)
        broker = read("/brokers/ids/0")
        assert broker["endpoints"] == [f"PLAINTEXT://{host}:{port}"]
        assert (broker["host"], broker["port"], broker["rack"]) == (host, port, "rack1")
        assert zk.get("/brokers/ids/0")[1].ephemeralOwner
        topic = read(f"/brokers/topics/{name}")
        assert topic["partitions"] == {str(p.partition): p.replicas for p in described.partitions}
        assert topic["topic_id"] == topic_id
        for partition in described.partitions:
            state = read(f"/brokers/topics/{name}/partitions/{partition.partition}/state")
            assert (state["leader"], state["isr"]) == (partition.leader, partition.isr)
            assert state["leader_epoch"] == partition.leader_epoch
        assert read(f"/config/topics/{name}")["config"] == {"retention.ms": "60000"}
        assert read("/controller")["brokerid"] == admin.describe_cluster().controller
        assert int(zk.get("/controller_epoch")[0]) >= 1
        assert read("/cluster/id")["id"] == admin.describe_cluster().cluster_id
        admin.delete_topic(name)
        assert zk.exists(f"/brokers/topics/{name}") is None
        assert zk.exists(f"/config/topics/{name}") is None
        assert zk.get_children("/admin/delete_topics") == []
    finally:
        zk.stop()
        zk.close()


def test_s88_s89_restarted_broker_keeps_topics_settings_and_records(
    cluster: LocalCluster, admin: Admin, name: str
) -> None:
    admin.create_topic(name, assignment=[[2]], config={"max.message.bytes": "5000"})
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send_many(name, [b"%d" % n for n in range(100)]).result(timeout=WAIT_S)
        before = admin.describe_topic(name)
        for stop in (cluster.terminate, cluster.kill):
            stop(2)
            cluster.start(2)
            producer.send(name, b"again").result(timeout=WAIT_S)
            after = admin.describe_topic(name)
            assert (after.topic_id, after.config) == (before.topic_id, before.config)
            assert isinstance(producer.send(name, b"x" * 6000).exception(timeout=WAIT_S), MessageTooLarge)
    with Consumer(name, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        values: list[bytes] = []
        while len(values) < 102:
            values += [record.value for record in consumer.poll(timeout=WAIT_S)]
    assert values == [b"%d" % n for n in range(100)] + [b"again"] * 2
