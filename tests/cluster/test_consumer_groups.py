"""Consumers that share topics: hand-overs, kills, pauses and dead coordinators under load, judged by what members noted."""

import logging
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, AsyncConsumer, Consumer, Lag, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import (
    ConfigError,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    OttlaError,
    UnknownMemberId,
)
from tests.support.cluster import wait_until
from tests.support.group_workers import PARTITIONS, Load, Worker, check_owners, check_reads, read_all, wait_shared
from tests.support.machine import scaled
from tests.support.raw_member import find_coordinator
from tests.support.workload import HASTY
from tests.support.znodes import read_znode

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 3, "broker_config": HASTY}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster: LocalCluster, name: str) -> str:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


MakeWorker = Callable[..., Worker]


@pytest.fixture
def worker(cluster: LocalCluster, group: str, topic: str, tmp_path: Path) -> Iterator[MakeWorker]:
    made: list[Worker] = []

    def make(strategy: str = "cooperative-sticky", instance: str = "-") -> Worker:
        path = tmp_path / f"worker-{len(made)}"
        made.append(Worker(cluster, group, topic, path, strategy, instance))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_s81_s83_a16_a17_kills_pauses_and_dead_coordinators_lose_nothing_and_double_no_owner(
    cluster: LocalCluster, worker: MakeWorker, group: str, topic: str, strategy: str
) -> None:
    load = Load(cluster.bootstrap, topic)
    workers = [worker(strategy) for _ in range(3)]
    wait_shared(workers)

    workers[0].signal(signal.SIGKILL)  # -9
    workers[0].process.wait()
    alive = workers[1:]
    wait_shared(alive)

    alive[0].signal(signal.SIGSTOP)  # paused past its session, and then back
    wait_shared(alive[1:])
    alive[0].signal(signal.SIGCONT)
    wait_shared(alive)

    coordinator = find_coordinator(cluster, group).broker_id
    cluster.kill(coordinator)
    workers.append(worker(strategy))
    alive = [workers[1], workers[2], workers[3]]
    wait_shared(alive)
    cluster.start(coordinator)

    load.stop()
    wait_until(read_all(workers, load.acked), scaled(60))
    check_owners(workers)
    check_reads(workers, load.acked)


def test_static_members_come_back_without_a_rebalance(cluster: LocalCluster, worker: MakeWorker, topic: str) -> None:
    one, two = worker(instance="one"), worker(instance="two")
    wait_shared([one, two])
    before = len(two.lines())
    generation = [line[2] for line in two.lines() if line[1] == "own"][-1]
    one.signal(signal.SIGKILL)
    one.process.wait()
    again = worker(instance="one")
    wait_shared([again, two])
    assert [line[2] for line in again.lines() if line[1] == "own"] == [generation]
    assert [line for line in two.lines()[before:] if line[1] in ("own", "revoked", "lost")] == []


def make_consumer(cluster: LocalCluster, group: str, **options: object) -> Consumer:
    settings: Any = {
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 5000,
        "heartbeat_interval_ms": 500,
        **options,
    }
    return Consumer(bootstrap_servers=cluster.bootstrap, group_id=group, **settings)


def poll_until(consumers: list[Consumer], enough: Callable[[], bool], timeout_s: float = 30.0) -> list[list[object]]:
    """Have all of them poll, by turns, until something is so; what each read."""
    found: list[list[object]] = [[] for _ in consumers]
    deadline = time.monotonic() + timeout_s
    while not enough():
        assert time.monotonic() < deadline
        for number, consumer in enumerate(consumers):
            found[number] += consumer.poll(0.02)
    return found


def shared(consumers: list[Consumer]) -> Callable[[], bool]:
    def done() -> bool:
        parts = [consumer.assignment() for consumer in consumers]
        fair = max(map(len, parts)) - min(map(len, parts)) <= 1
        return fair and sum(map(len, parts)) == PARTITIONS == len(set().union(*parts))

    return done


def test_s83_consumers_beyond_the_partitions_get_nothing_and_take_over_at_once(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    consumers = [make_consumer(cluster, group) for _ in range(PARTITIONS + 1)]
    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        poll_until(consumers, lambda: shared(consumers)() and sum(not c.assignment() for c in consumers) == 1)
        leaves = next(consumer for consumer in consumers if consumer.assignment())
        rest = [consumer for consumer in consumers if consumer is not leaves]
        leaves.close()
        poll_until(rest, shared(rest))
    finally:
        for consumer in consumers:
            consumer.close()


def test_cooperative_hand_over_stops_nobody_whose_partitions_stay(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    revoked: list[set[TopicPartition]] = []

    class Listener:
        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            revoked.append(partitions)

    with make_consumer(cluster, group) as one, make_consumer(cluster, group) as two:
        one.subscribe([topic], listener=Listener())
        poll_until([one], shared([one]))
        two.subscribe([topic])
        poll_until([one, two], shared([one, two]))
        assert len(one.assignment()) == PARTITIONS // 2
        assert sum(map(len, revoked)) == PARTITIONS // 2, "no more than what the other one got"


def test_what_was_polled_is_committed_by_itself_and_read_on_from_there(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number)
    with make_consumer(cluster, group) as one:
        one.subscribe([topic])
        read: list[object] = []
        deadline = time.monotonic() + 30
        while len(read) < 100 and time.monotonic() < deadline:
            read += one.poll(0.1)
        assert len(read) == 100
    with make_consumer(cluster, group) as two:
        two.subscribe([topic])
        poll_until([two], shared([two]))
        assert two.poll(1.0) == []


def test_manual_commits_of_a_record_of_offsets_and_of_everything(cluster: LocalCluster, group: str, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=0)
    with make_consumer(cluster, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        records: list[object] = []
        while len(records) < 20:
            records += consumer.poll(0.1)
        assert consumer.committed([t0]) == {t0: None}
        assert consumer.lag()[t0] == Lag(records=0, seconds=0.0)
        consumer.commit(records[4])  # type: ignore[arg-type]
        assert consumer.committed([t0])[t0].offset == 5  # type: ignore[union-attr]
        consumer.commit({t0: 7})
        assert consumer.committed([t0])[t0].offset == 7  # type: ignore[union-attr]
        consumer.commit()
        assert consumer.committed([t0])[t0].offset == 20  # type: ignore[union-attr]
        consumer.seek(topic, 0, 3)
        assert consumer.lag()[t0].records == 17
        assert consumer.poll(5.0)[0].offset == 3
    assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/0").data == b"20"


def test_lag_in_seconds_is_the_age_of_the_first_record_that_was_not_read(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    now_ms = int(time.time() * 1000)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for age_s in (600, 60, 30):
            producer.send(topic, b"", partition=0, timestamp_ms=now_ms - age_s * 1000).result(timeout=scaled(10))
    with (
        make_consumer(cluster, group, enable_auto_commit=False) as consumer,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        consumer.subscribe([topic])
        records: list[object] = []
        while len(records) < 3:
            records += consumer.poll(0.1)
        consumer.seek(t0, 0)
        assert consumer.lag()[t0].seconds == pytest.approx(600, abs=20)
        consumer.seek(t0, 2)
        assert consumer.lag()[t0].seconds == pytest.approx(30, abs=20)
        wait_until(lambda: t1 in consumer.lag())  # whose position comes by itself
        assert consumer.lag()[t1] == Lag(0, 0.0)
        consumer.commit({t0: 1})
        lag = admin.group_lag(group)
        assert lag[t0].lag == 2
        assert lag[t0].lag_seconds == pytest.approx(60, abs=20)
        consumer.commit({t0: 3})
        assert (admin.group_lag(group)[t0].lag, admin.group_lag(group)[t0].lag_seconds) == (0, 0)


def test_member_that_does_not_poll_leaves_and_comes_back_when_it_does(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    lost: list[set[TopicPartition]] = []

    class Listener:
        def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
            lost.append(partitions)

    with (
        make_consumer(cluster, group, max_poll_interval_ms=1500, heartbeat_interval_ms=200) as idle,
        make_consumer(cluster, group) as other,
    ):
        idle.subscribe([topic], listener=Listener())
        poll_until([idle], shared([idle]))
        other.subscribe([topic])
        poll_until([other], shared([other]))
        poll_until([idle, other], lambda: bool(lost) and bool(idle.assignment()) and shared([idle, other])())


async def test_asyncio_consumers_share_too_and_their_listeners_may_wait(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    heard: list[str] = []

    class Listener:
        async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            heard.append(f"assigned {len(partitions)}")

    async with AsyncConsumer(bootstrap_servers=cluster.bootstrap, group_id=group, auto_offset_reset="earliest") as one:
        await one.subscribe([topic], listener=Listener())
        deadline = time.monotonic() + 20
        while not heard and time.monotonic() < deadline:
            await one.poll(0.1)
        assert heard == [f"assigned {PARTITIONS}"]


def test_topics_of_a_pattern_and_new_partitions_are_shared_too(cluster: LocalCluster, group: str, topic: str) -> None:
    with (
        make_consumer(cluster, group, metadata_max_age_ms=500) as consumer,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        consumer.subscribe(pattern=f"^{topic}")
        poll_until([consumer], shared([consumer]))
        admin.create_topic(f"{topic}-more", partitions=2)
        poll_until([consumer], lambda: len(consumer.assignment()) == PARTITIONS + 2)
        admin.add_partitions(f"{topic}-more", 3)
        poll_until([consumer], lambda: len(consumer.assignment()) == PARTITIONS + 3)


def test_second_member_with_an_instance_id_fences_the_first(cluster: LocalCluster, group: str, topic: str) -> None:
    with (
        make_consumer(cluster, group, group_instance_id="i") as one,
        make_consumer(cluster, group, group_instance_id="i") as two,
    ):
        one.subscribe([topic])
        poll_until([one], shared([one]))
        two.subscribe([topic])
        poll_until([two], shared([two]))
        with pytest.raises(FencedInstanceId):
            poll_until([one], lambda: False, 10)
        with pytest.raises(OttlaError):
            one.commit({TopicPartition(topic, 0): 1})


def test_old_generation_cannot_commit_by_the_client_either(cluster: LocalCluster, group: str, topic: str) -> None:
    with make_consumer(cluster, group, partition_assignment_strategy="range") as one:
        one.subscribe([topic])
        poll_until([one], shared([one]))
        with make_consumer(cluster, group, partition_assignment_strategy="range") as two:
            two.subscribe([topic])
            poll_until([one, two], shared([one, two]))
            theirs = next(iter(two.assignment()))
            one._twin._group.member.generation -= 1  # type: ignore[union-attr]
            with pytest.raises((IllegalGeneration, UnknownMemberId)):
                one.commit({theirs: 5}, timeout=5)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"partition_assignment_strategy": "fair"}, "cooperative-sticky"),
        ({"heartbeat_interval_ms": 9000, "session_timeout_ms": 5000}, "session_timeout_ms"),
    ],
)
def test_settings_that_make_no_sense_are_refused(cluster: LocalCluster, options: dict[str, object], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        make_consumer(cluster, "g", **options)


def test_consumer_without_a_group_says_what_it_lacks(cluster: LocalCluster, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=cluster.bootstrap) as consumer:
        for ask in (consumer.commit, lambda: consumer.committed([(topic, 0)])):
            with pytest.raises(ConfigError, match="group"):
                ask()


def test_listener_that_would_hear_nothing_is_refused(cluster: LocalCluster, group: str, topic: str) -> None:
    with (
        Consumer(bootstrap_servers=cluster.bootstrap, group_id=group) as consumer,
        pytest.raises(ConfigError, match="would hear nothing") as caught,
    ):
        consumer.subscribe([topic], listener=print)
    assert "on_partitions_assigned" in (caught.value.hint or "")


def test_topic_that_a_member_waits_for_is_told_once(
    cluster: LocalCluster, group: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    missing = f"{topic}-misspelt"
    with (
        caplog.at_level(logging.WARNING, "ottla.client"),
        Consumer(topic, missing, bootstrap_servers=cluster.bootstrap, group_id=group) as consumer,
    ):
        wait_until(lambda: consumer.poll(timeout=0.1) == [] and len(consumer.assignment()) == PARTITIONS)
        consumer.subscribe([topic, missing])  # joins again
        generation = consumer.generation
        wait_until(lambda: consumer.poll(timeout=0.1) == [] and consumer.generation > generation)
    told = [record.getMessage() for record in caplog.records if missing in record.getMessage()]
    assert told == [f"Topic {missing} does not exist: it is read as soon as somebody makes it."]


def test_member_with_another_strategy_than_the_others_is_told_what_to_set(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": group}
    with Consumer(topic, partition_assignment_strategy=["range", "roundrobin"], **options) as first:
        wait_until(lambda: first.poll(timeout=0.1) == [] and len(first.assignment()) == PARTITIONS)
        with (
            Consumer(topic, **options) as other,  # it joins at once
            pytest.raises(InconsistentGroupProtocol, match="give it one of theirs as its partition"),
        ):
            other.poll(timeout=scaled(10))
