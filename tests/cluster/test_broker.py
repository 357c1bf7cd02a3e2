"""What a broker answers: errors by their numbers, limits of a fetch, topics and their settings, znodes, health, properties."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequiredAcks,
    InvalidTopic,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.records import encode_batch, split_batches
from ottla.wire.requests import (
    FetchPart,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProducePart,
    ProduceRequest,
    ProduceResponse,
)
from ottla.zk.ensemble import free_ports
from tests.support.cluster import wait_until
from tests.support.raw_client import RawClient, framed

pytestmark = pytest.mark.cluster

WAIT_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers that look after retention all the time; tests that stop one start it again."""
    with LocalCluster(brokers=3, racks=3, broker_config={"log.retention.check.interval.ms": "100"}) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    return f"broker-{uuid.uuid4().hex[:12]}"


def address(cluster: LocalCluster, broker: int) -> tuple[str, int]:
    host, _, port = cluster.address(broker).rpartition(":")
    return host, int(port)


def leader_of(cluster: LocalCluster, admin: Admin, topic: str, partition: int = 0) -> RawClient:
    return RawClient(address(cluster, admin.describe_topic(topic).partitions[partition].leader))


def batch(*values: bytes, timestamp_ms: int | None = None) -> bytearray:
    return encode_batch(values, timestamps=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)


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
    admin.create_topic(name)
    leader = admin.describe_topic(name).partitions[0].leader
    with RawClient(address(cluster, (leader + 1) % 3)) as client:
        produced = client.produce(name, batch(b"v"))
        fetched = client.fetch(name, 0)[0].parts[0]
    assert produced.error_code == fetched.error_code == NotLeaderOrFollower.code == 6
    assert produced.leader == fetched.leader == leader


def test_offset_that_is_not_in_the_log_is_error_1(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name)
    with leader_of(cluster, admin, name) as client:
        client.produce(name, batch(b"a", b"b"))
        for offset in (3, 1000, -5):
            assert client.fetch(name, offset)[0].parts[0].error_code == OffsetOutOfRange.code == 1
        assert client.fetch(name, 2)[0].parts[0].error_code == 0


def test_s67_batch_above_max_message_bytes_is_error_10(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"max.message.bytes": "500"})
    with leader_of(cluster, admin, name) as client:
        assert client.produce(name, batch(b"x" * 600)).error_code == MessageTooLarge.code == 10
        assert client.produce(name, batch(b"x" * 100)).base_offset == 0


def test_acks_that_do_not_exist_are_error_21(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name)
    with leader_of(cluster, admin, name) as client:
        with pytest.raises(InvalidRequiredAcks):
            client.produce(name, batch(b"v"), acks=2)
        for acks in (1, -1):
            assert client.produce(name, batch(b"v"), acks=acks).error_code == 0


@pytest.mark.parametrize("bad", ["", ".", "..", "with space", "slash/y", "x" * 250, "ümlaut"])
def test_illegal_topic_names_are_refused(admin: Admin, bad: str) -> None:
    with pytest.raises(InvalidTopic):
        admin.create_topic(bad)


def test_s34_replication_factor_above_the_brokers_is_error_38(admin: Admin, name: str) -> None:
    assert InvalidReplicationFactor.code == 38
    for factor in (4, 0, -1):
        with pytest.raises(InvalidReplicationFactor):
            admin.create_topic(name, replication_factor=factor)
    assert name not in admin.list_topics()


def test_senseless_partitions_and_assignments_are_refused(admin: Admin, name: str) -> None:
    for partitions in (0, -1, 1_000_000):
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


# --- topics and their settings ---


@pytest.mark.parametrize(
    "config",
    [
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"segment.bytes": "0"},
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

    def kept() -> int:
        return sum(file.stat().st_size for file in folder.glob("*.log"))

    wait_until(lambda: kept() <= 4100, WAIT_S)
    assert all(file.stat().st_size <= 1000 for file in folder.glob("*.log"))
    assert admin.earliest_offsets(name)[TopicPartition(name, 0)] > 35


def test_topic_without_settings_of_its_own_keeps_everything(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(name, b"old", timestamp_ms=int(time.time() * 1000) - 3_600_000).result(timeout=WAIT_S)
    assert admin.earliest_offsets(name)[TopicPartition(name, 0)] == 0


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


def test_produce_of_many_partitions_answers_each_for_itself(filled: tuple[str, RawClient, int]) -> None:
    topic, client, _ = filled
    good = batch(b"v")
    parts = [ProducePart(topic, 0, len(good)), ProducePart(topic, 9, len(good)), ProducePart(topic, 2, len(good))]
    response = client.ask(ProduceRequest(1, 1000, parts), ProduceResponse, [good, good, good])
    assert [(part.error_code, part.base_offset) for part in response.parts] == [(0, 10), (3, -1), (0, 10)]


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


def test_s88_restarted_broker_keeps_topics_settings_and_records(cluster: LocalCluster, admin: Admin, name: str) -> None:
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


# --- health and metrics ---


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_health_readiness_and_metrics_are_served(cluster: LocalCluster, admin: Admin, name: str) -> None:
    admin.create_topic(name, assignment=[[1]])

    def metric(broker: int, wanted: str) -> float:
        lines = get(f"{cluster.admin_url(broker)}/metrics").splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(wanted))

    for broker in cluster.brokers:
        assert get(f"{cluster.admin_url(broker)}/healthz") == "ok\n"
        assert get(f"{cluster.admin_url(broker)}/readyz") == "ready\n"
    records, failures = metric(1, "ottla_records_in_total"), 'ottla_request_errors_total{api="PRODUCE"'
    with RawClient(address(cluster, 1)) as client:
        client.produce(name, batch(b"a", b"b", b"c")).raise_if_failed()
        with pytest.raises(OttlaError):
            client.produce(name, batch(b"v"), acks=7)
    assert metric(1, "ottla_records_in_total") == records + 3
    assert metric(1, failures) >= 1
    assert metric(1, "ottla_bytes_in_total") > 0
    assert metric(1, 'ottla_requests_total{api="PRODUCE"}') >= 1
    assert metric(1, "ottla_leader_partitions") >= 1
    assert sum(metric(broker, "ottla_active_controller") for broker in cluster.brokers) == 1


# --- properties ---


def run_broker(
    *arguments: str, environment: dict[str, str] | None = None, timeout_s: float = WAIT_S
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ottla.broker", *arguments]
    env = {**child_environment(), **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=env, check=False)


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(cluster: LocalCluster, tmp_path: Path) -> None:
    ports = free_ports(4)
    file = tmp_path / "server.properties"
    file.write_text(
        f"# a comment\nbroker.id=10\nzookeeper.connect={cluster.zookeeper}/precedence\nlog.dirs={tmp_path / 'data'}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]}\nadmin.listener=http://127.0.0.1:{ports[1]}\n"
        "broker.rack=file\nof.some.later.version=1\n"
    )
    command = [sys.executable, "-m", "ottla.broker", "--config", str(file)]
    command += ["-o", "broker.id=12", "-o", f"admin.listener=http://127.0.0.1:{ports[3]}"]
    environment = {"OTTLA_BROKER_ID": "11", "OTTLA_LISTENERS": f"PLAINTEXT://127.0.0.1:{ports[2]}"}
    log = (tmp_path / "log").open("wb")
    broker = subprocess.Popen(command, env={**child_environment(), **environment}, stderr=log, stdout=log)
    try:
        with Admin(bootstrap_servers=f"127.0.0.1:{ports[2]}") as admin:
            [found] = admin.describe_cluster(timeout=WAIT_S).brokers
        assert (found.id, found.port, found.rack) == (12, ports[2], "file")
        assert get(f"http://127.0.0.1:{ports[3]}/healthz") == "ok\n"
        assert "of.some.later.version" in (tmp_path / "log").read_text()
    finally:
        broker.terminate()
        assert broker.wait(WAIT_S) == 0
        log.close()


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("broker.id=-5", "broker.id=-5"),
        ("broker.id=one", "give a whole number"),
        ("listeners=nonsense", "listeners='nonsense'"),
        ("log.flush.policy=never", "log.flush.policy"),
        ("zookeeper.session.timeout.ms=20000", "below replica.lag.time.max.ms"),
        ("log.dirs=,", "log.dirs"),
        ("message.max.bytes=0", "message.max.bytes"),
        ("brokerid=1", "did you mean broker.id"),
        ("broker.id", "is not key=value"),
    ],
)
def test_config_that_makes_no_sense_is_refused_with_its_name(tmp_path: Path, flag: str, says: str) -> None:
    folder = f"log.dirs={tmp_path}"
    ended = run_broker("-o", "broker.id=1", "-o", folder, "-o", "listeners=127.0.0.1:0", "-o", flag)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert ended.stderr.startswith("error: ")
    assert "Traceback" not in ended.stderr


def test_missing_properties_file_is_refused(tmp_path: Path) -> None:
    ended = run_broker("--config", str(tmp_path / "nowhere.properties"))
    assert ended.returncode == 1
    assert "cannot read" in ended.stderr
