"""docs/checklist.md, section D: replication, ISR, commit. Broker 0 leads; 1 and 2 follow and have a tap (see tapped_broker)."""

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire import native
from ottla.wire.errors import ClientTimeout, NotLeaderOrFollower
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER
from ottla.wire.requests import (
    FetchPart,
    FetchRequest,
    FetchResponse,
    ProducePart,
    ProduceRequest,
    ProduceResponse,
)
from tests.support.broker_requests import shake_hands
from tests.support.cluster import wait_until
from tests.support.observer import WAIT_S, Observer, observed, segment_bytes
from tests.support.raw_client import RawClient, framed, one_record, patiently
from tests.support.tapped_broker import TappedBroker, tapped_brokers

pytestmark = pytest.mark.cluster

LAG_S = 6.0
CONFIG = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": str(int(LAG_S * 1000))}


class Stage(NamedTuple):
    """A leader and two followers with taps."""

    seen: Observer
    taps: dict[int, TappedBroker]

    def has(self, broker: int, topic: str, value: bytes) -> bool:
        """Whether a broker has a record on disk."""
        path = self.seen.cluster.data_path(0) if broker == 0 else self.taps[broker].data_path
        return value in segment_bytes(path / f"{topic}-0")

    def connect(self, follower: int) -> RawClient:
        host, _, port = self.taps[follower].address.rpartition(":")
        return RawClient((host, int(port)), WAIT_S)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("taps")
    with (
        LocalCluster(brokers=1, broker_config=CONFIG) as cluster,
        tapped_brokers(cluster, [1, 2], CONFIG, folder) as taps,
        observed(cluster) as seen,
    ):
        yield Stage(seen, taps)


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    yield running
    for tap in running.taps.values():
        tap.open()


@pytest.fixture
def topic(stage: Stage) -> str:
    """A topic that broker 0 leads and 1 and 2 follow, all in sync."""
    name = f"d-{uuid.uuid4().hex[:12]}"
    seen = stage.seen
    wait_until(lambda: seen.broker_ids() == [0, 1, 2], WAIT_S)
    seen.admin.create_topic(name, assignment=[[0, 1, 2]], timeout=WAIT_S)
    seen.produce(name, [b"first"])
    seen.wait_in_sync(name)
    return name


def committed(stage: Stage, topic: str) -> int:
    """The high watermark, as the leader tells it to a consumer."""
    with stage.seen.connect(0) as client:
        return client.fetch(topic, 0)[0].parts[0].high_watermark


# --- leaders and followers ---


def test_s43_every_replica_leads_or_follows(stage: Stage, topic: str) -> None:
    state = stage.seen.state(topic)
    assert (state["leader"], sorted(state["isr"])) == (0, [0, 1, 2])
    for follower in (1, 2):
        with stage.connect(follower) as client:
            assert client.produce(topic, one_record()).error_code == NotLeaderOrFollower.code
    with stage.seen.connect(0) as client:
        client.produce(topic, one_record(b"to the leader"), acks=ACKS_ALL).raise_if_failed()
    assert all(stage.has(broker, topic, b"to the leader") for broker in (0, 1, 2))


def test_s46_followers_ask_again_and_again(stage: Stage, topic: str) -> None:
    def fetches() -> float:
        return stage.seen.metric(0, 'ottla_requests_total{api="FETCH"}')

    before = fetches()
    wait_until(lambda: fetches() >= before + 6, WAIT_S)  # nobody writes and no consumer reads


def test_s44_s45_s52_leader_knows_a_follower_by_its_fetches_and_commits_what_all_have(stage: Stage, topic: str) -> None:
    seen = stage.seen
    stage.taps[2].shut()
    with seen.connect(0) as client:
        for n in range(1, 11):
            client.produce(topic, one_record(b"record %d" % n), acks=ACKS_LEADER).raise_if_failed()
    wait_until(lambda: stage.has(1, topic, b"record 10"), WAIT_S)
    assert committed(stage, topic) == 1
    # We ask in the place of broker 2, by the same request that consumers send, with a replica id.
    epoch, leader_epoch = seen.read("/brokers/ids/2")["broker_epoch"], seen.state(topic)["leader_epoch"]
    secret = seen.zk.get("/ottla/secret")[0].decode()
    with seen.connect(0) as client:
        shake_hands(client, secret, 2, epoch)
        for asked in (1, 4, 7):
            part = FetchPart(topic, 0, asked, 1_000_000, leader_epoch, leader_epoch)
            client.send(framed(FetchRequest(0, 0, 1_000_000, [part], replica_id=2, broker_epoch=epoch)))
            answer = client.answer()
            [result] = native.decode_fields(FetchResponse, answer.fields).parts
            result.raise_if_failed()
            assert b"record 10" in bytes(answer.tail), "a follower gets what is not committed yet"
            assert committed(stage, topic) == asked, "it has all before what it asks for, and nobody else has less"
    assert seen.isr(topic) == [0, 1, 2]
    stage.taps[2].open()
    wait_until(lambda: committed(stage, topic) == 11, WAIT_S)
    assert stage.has(2, topic, b"record 10")


def test_s28_s46_a_replica_goes_only_when_the_one_that_takes_its_place_has_everything(stage: Stage) -> None:
    seen, name = stage.seen, f"d-{uuid.uuid4().hex[:12]}"
    seen.admin.create_topic(name, assignment=[[0, 1]], timeout=WAIT_S)
    seen.produce(name, [b"first"])
    stage.taps[2].shut()
    seen.admin.reassign(name, 0, [0, 2], timeout=WAIT_S)
    seen.produce(name, [b"second"])
    assert stage.has(1, name, b"second"), "it is still one of those in sync"
    assert (seen.isr(name), seen.admin.describe_topic(name).partitions[0].replicas) == ([0, 1], [0, 2, 1])
    stage.taps[2].open()
    wait_until(lambda: seen.admin.describe_topic(name).partitions[0].replicas == [0, 2], WAIT_S)
    assert seen.isr(name) == [0, 2]
    assert stage.has(2, name, b"second")


# --- what is committed ---


def test_s53_consumers_see_what_all_in_sync_replicas_have(stage: Stage, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=stage.seen.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(timeout=WAIT_S)] == [b"first"]
        stage.taps[1].shut()
        with stage.seen.connect(0) as client:
            assert client.produce(topic, one_record(b"not yet"), acks=ACKS_LEADER).base_offset == 1
            wait_until(lambda: stage.has(2, topic, b"not yet"), WAIT_S)
            assert consumer.poll(timeout=0.5) == []
            response, records = client.fetch(topic, 1)
            assert (response.parts[0].error_code, records) == (0, b"")
            assert client.end_offset(topic) == 1
        assert stage.seen.isr(topic) == [0, 1, 2]
        stage.taps[1].open()
        assert [record.value for record in consumer.poll(timeout=WAIT_S)] == [b"not yet"]


def test_s55_s56_acks_all_waits_in_the_purgatory_and_acks_1_does_not(stage: Stage, topic: str) -> None:
    def waiting() -> float:
        return stage.seen.metric(0, 'ottla_purgatory_size{kind="produce"}')

    assert waiting() == 0
    stage.taps[2].shut()
    with stage.seen.connect(0) as patient, stage.seen.connect(0) as hasty:
        for value in (b"one", b"two"):
            batch = one_record(value)
            patient.send(framed(ProduceRequest(ACKS_ALL, 30_000, [ProducePart(topic, 0, len(batch))]), [batch]))
        wait_until(lambda: waiting() == 2, WAIT_S)
        assert hasty.produce(topic, one_record(b"three"), acks=ACKS_LEADER).base_offset == 3
        patient.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            patient.sock.recv(1)
        assert waiting() == 2
        assert committed(stage, topic) == 1
        patient.sock.settimeout(WAIT_S)
        stage.taps[2].open()
        offsets = []
        for _ in range(2):
            [result] = native.decode_fields(ProduceResponse, patient.answer().fields).parts
            result.raise_if_failed()
            offsets.append(result.base_offset)
        assert offsets == [1, 2], "acks come in order"
    wait_until(lambda: waiting() == 0, WAIT_S)
    assert stage.has(2, topic, b"two")


def test_s56_paused_follower_keeps_acks_waiting_until_its_session_is_over(stage: Stage, topic: str) -> None:
    leader_epoch = stage.seen.state(topic)["leader_epoch"]
    stage.taps[2].process.pause()
    try:
        with stage.seen.connect(0) as client:
            batch = one_record(b"waits")
            client.send(framed(ProduceRequest(ACKS_ALL, 30_000, [ProducePart(topic, 0, len(batch))]), [batch]))
            wait_until(lambda: stage.seen.metric(0, 'ottla_purgatory_size{kind="produce"}') == 1, WAIT_S)
            [result] = native.decode_fields(ProduceResponse, client.answer().fields).parts
            result.raise_if_failed()
        assert stage.seen.isr(topic) == [0, 1]
        # The leader would take it out as well, later, but only a controller begins a new epoch.
        assert stage.seen.state(topic)["leader_epoch"] > leader_epoch, "its session was over, not its time to catch up"
    finally:
        stage.taps[2].process.resume()
    stage.seen.wait_in_sync(topic)
    assert stage.has(2, topic, b"waits")


def test_s54_record_that_was_acked_is_read_from_the_next_leader(stage: Stage, topic: str) -> None:
    seen = stage.seen
    servers = [seen.cluster.address(0), *(tap.address for tap in stage.taps.values())]
    stage.taps[1].shut()  # in sync all the same, and the next to lead
    with Producer(bootstrap_servers=servers, acks="all") as producer:
        sent = producer.send(topic, b"acked")
        wait_until(lambda: stage.has(2, topic, b"acked"), WAIT_S)
        with suppress(ClientTimeout):
            sent.result(timeout=0.5)  # a leader that did not wait for broker 1 would ack it now, and it would be lost
        seen.cluster.kill(0)
        try:
            wait_until(lambda: seen.leader(topic) == 1, WAIT_S)
            stage.taps[1].open()
            sent.result(timeout=WAIT_S)
            found: list[bytes | None] = []
            with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
                while len(found) < 2:
                    records = consumer.poll(timeout=WAIT_S)
                    assert records, f"only {found} came"
                    found += [record.value for record in records]
            assert found == [b"first", b"acked"]
        finally:
            seen.cluster.start(0)
    with Admin(bootstrap_servers=stage.taps[1].address) as admin:
        wait_until(lambda: sorted(admin.describe_topic(topic).partitions[0].isr) == [0, 1, 2], WAIT_S)


# --- who is in sync ---


class Writer:
    """Writes a batch after another to the leader, until told to stop."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage = stage
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._stage.seen.connect(0) as client:
            while not self._stop.wait(0.02):
                client.produce(self._topic, one_record(), acks=ACKS_LEADER).raise_if_failed()


def test_s47_s48_s49_follower_is_out_of_sync_in_both_cases_and_comes_back(stage: Stage, topic: str) -> None:
    seen = stage.seen
    idle = f"{topic}-idle"
    seen.admin.create_topic(idle, assignment=[[0, 1, 2]], timeout=WAIT_S)
    stage.taps[1].shut()  # sends no fetch at all
    stage.taps[2].slow()  # fetches all the time, and never gets to the end
    with Writer(stage, topic):
        wait_until(lambda: seen.isr(topic) == [0], WAIT_S)
        before = seen.metric(0, 'ottla_requests_total{api="FETCH"}')
        wait_until(lambda: seen.metric(0, 'ottla_requests_total{api="FETCH"}') > before, WAIT_S)
        assert "followers are behind" in seen.log(0)
        # Nobody but the leader took them out: their sessions live.
        assert seen.broker_ids() == [0, 1, 2]
        # A follower that has everything is in sync, however slowly it asks.
        wait_until(lambda: 2 in seen.isr(idle), WAIT_S)
        for tap in stage.taps.values():
            tap.open()
        wait_until(lambda: seen.isr(topic) == [0, 1, 2], WAIT_S)
    seen.wait_in_sync(idle)


def test_s50_out_of_sync_replica_does_not_become_leader(stage: Stage, topic: str) -> None:
    seen = stage.seen
    alone = f"{topic}-alone"
    seen.admin.create_topic(alone, assignment=[[0, 1]], timeout=WAIT_S)
    seen.wait_in_sync(alone)
    stage.taps[1].shut()
    with Writer(stage, topic), Writer(stage, alone):
        wait_until(lambda: seen.isr(topic) == [0, 2] and seen.isr(alone) == [0], WAIT_S)
    with seen.connect(0) as client:
        client.produce(topic, one_record(b"committed"), acks=ACKS_ALL).raise_if_failed()
    seen.cluster.kill(0)
    try:
        # Broker 1 is the next in the list and alive; it is not in sync, so broker 2 leads, and nobody where there is none.
        wait_until(lambda: seen.leader(topic) == 2, WAIT_S)
        wait_until(lambda: seen.leader(alone) == -1, WAIT_S)
        assert 1 in seen.broker_ids()
        with stage.connect(2) as client:
            patiently(lambda: client.produce(topic, one_record(b"after"), acks=ACKS_LEADER).raise_if_failed())
        assert stage.has(2, topic, b"committed")
        stage.taps[1].open()
        wait_until(lambda: seen.isr(topic) == [1, 2], WAIT_S)
        assert seen.leader(alone) == -1, "it has not got what is committed, and there is nobody to get it from"
    finally:
        seen.cluster.start(0)
    wait_until(lambda: seen.leader(alone) == 0, WAIT_S)
    with Admin(bootstrap_servers=stage.taps[1].address) as admin:
        wait_until(lambda: sorted(admin.describe_topic(topic).partitions[0].isr) == [0, 1, 2], WAIT_S)
    assert stage.has(1, topic, b"committed")


@pytest.mark.parametrize("session_ms", [10_000, 12_000])
def test_s49_session_that_outlives_the_lag_is_refused(tmp_path: Path, session_ms: int) -> None:
    flags = ["broker.id=1", f"log.dirs={tmp_path}", f"zookeeper.session.timeout.ms={session_ms}"]
    ended = subprocess.run(
        [sys.executable, "-m", "ottla.broker", *(word for flag in flags for word in ("-o", flag))],
        capture_output=True, text=True, timeout=WAIT_S, env=child_environment(), check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "below replica.lag.time.max.ms (10000)" in ended.stderr
