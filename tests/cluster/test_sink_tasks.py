"""The tasks of Spark's sink on a live cluster, without Spark: attempts that break off, come together or come too late."""

import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from ottla.client import Admin, Consumer
from ottla.local import LocalCluster
from ottla.spark_jobs import clusters
from ottla.spark_jobs.sink import sink_client
from ottla.spark_jobs.sink.notes import RowsDiffer
from ottla.spark_jobs.sink.options import SinkOptions, sink_options
from ottla.spark_jobs.sink.sink_client import SinkClient
from ottla.spark_jobs.sink.task import Batches, write_fast, write_once
from ottla.wire.errors import InvalidProducerEpoch, UnknownTopicOrPartition
from tests.support.cluster import complete

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 3}

Rows = list[tuple[bytes | None, bytes]]


def rows_of(count: int) -> Rows:
    return [(b"k%d" % (number % 50) if number % 3 else None, b"%d" % number) for number in range(count)]


def in_batches(rows: Rows, size: int = 100) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        keys, values = zip(*rows[start : start + size], strict=True)
        yield pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def shuffled(rows: Rows, seed: int) -> Rows:
    return random.Random(seed).sample(rows, len(rows))


class Killed(Exception):
    """What ends an attempt in its middle."""


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_client, "CHUNK_BYTES", 3_000)


@pytest.fixture
def target(cluster: LocalCluster) -> str:
    complete(cluster)
    name = f"sink-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=4, replication_factor=3, config={"min.insync.replicas": "2"})
    return name


@pytest.fixture
def options(cluster: LocalCluster, target: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": target, "kafka.batch.size": "500"}
    return sink_options(given, streaming=True)


@pytest.fixture
def writer() -> str:
    return f"writer-{uuid.uuid4()}"


def stored(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1_000
    ) as consumer:
        return Counter(record.value for record in consumer)


def values(rows: Iterable[tuple[bytes | None, bytes]]) -> Counter[bytes]:
    return Counter(value for _, value in rows)


@pytest.fixture
def broken_off(monkeypatch: pytest.MonkeyPatch, options: SinkOptions) -> object:
    """Runs an attempt that ends after some of its batches were sent."""

    def run(rows: Rows, name: tuple[str, int, int], after: int) -> None:
        whole = SinkClient.send

        def some(client: SinkClient, batches: Batches) -> int:
            def until_killed() -> Batches:
                for number, batch in enumerate(batches):
                    if number == after:
                        raise Killed
                    yield batch

            return whole(client, until_killed())

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(SinkClient, "send", some)
            write_once(in_batches(rows), options, name)

    return run


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("small_chunks")
def test_an_attempt_that_broke_off_is_completed_by_one_with_the_rows_in_another_order(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str, broken_off, seed: int
) -> None:
    rows = rows_of(2_000)
    for number, after in enumerate((5, 17, 40)):
        broken_off(shuffled(rows, seed + number), (writer, 0, 0), after)
    assert 0 < sum(stored(cluster, target).values()) < len(rows)
    written = write_once(in_batches(shuffled(rows, seed + 100)), options, (writer, 0, 0))
    assert written.rows == len(rows)
    assert not written.repeated
    assert stored(cluster, target) == values(rows)
    assert write_once(in_batches(rows), options, (writer, 0, 0)).repeated
    assert stored(cluster, target) == values(rows)


@pytest.mark.usefixtures("small_chunks")
def test_attempts_at_the_same_time_store_everything_once(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str
) -> None:
    rows = rows_of(3_000)
    failed: list[BaseException] = []

    def attempt(seed: int) -> None:
        try:
            write_once(in_batches(shuffled(rows, seed)), options, (writer, 0, 0))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=attempt, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert stored(cluster, target) == values(rows)


@pytest.mark.usefixtures("small_chunks")
def test_leaders_that_are_killed_meanwhile_cost_nothing(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str
) -> None:
    rows = rows_of(20_000)
    stop = threading.Event()

    def kill_in_turn() -> None:
        broker = 0
        while not stop.wait(0.3):
            cluster.kill(broker)
            cluster.start(broker)
            broker = (broker + 1) % 3

    killer = threading.Thread(target=kill_in_turn)
    killer.start()
    try:
        for batch in range(5):
            write_once(in_batches(rows[batch::5]), options, (writer, 0, batch))
    finally:
        stop.set()
        killer.join(60)
    assert stored(cluster, target) == values(rows)


def test_other_rows_are_refused_before_any_of_them_is_sent(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str
) -> None:
    rows = rows_of(100)
    write_once(in_batches(rows), options, (writer, 0, 0))
    with pytest.raises(RowsDiffer, match=r"task 0 of writer-.*, batch 0, has other rows than when it was tried first"):
        write_once(in_batches([*rows[1:], (None, b"another")]), options, (writer, 0, 0))
    assert stored(cluster, target) == values(rows)


@pytest.mark.parametrize(("first", "second"), [(100, 0), (0, 100)])
def test_no_rows_are_other_rows_than_some(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str, first: int, second: int
) -> None:
    write_once(in_batches(rows_of(first)), options, (writer, 0, 0))
    with pytest.raises(RowsDiffer, match="has other rows than when it was tried first"):
        write_once(in_batches(rows_of(second)), options, (writer, 0, 0))
    assert stored(cluster, target) == values(rows_of(first))


def test_an_attempt_that_was_left_behind_is_refused(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str
) -> None:
    rows = rows_of(100)
    write_once(in_batches(rows), options, (writer, 0, 0))
    write_once(in_batches(rows), options, (writer, 0, 1))
    with pytest.raises(InvalidProducerEpoch, match=r"batch 0 of .* comes after batch 1 has begun"):
        write_once(in_batches(rows), options, (writer, 0, 0))
    assert stored(cluster, target) == values([*rows, *rows])


@pytest.mark.usefixtures("small_chunks")
def test_a_topic_that_grew_between_two_attempts_does_not_move_rows(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str, broken_off, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(2_000)
    broken_off(rows, (writer, 0, 0), 20)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_partitions({target: 7})
    monkeypatch.setattr(clusters, "_clusters", {})  # as in another process, which finds seven partitions
    write_once(in_batches(rows), options, (writer, 0, 0))
    assert stored(cluster, target) == values(rows)


def test_kept_order_is_the_order_of_the_rows_and_another_one_is_refused(
    cluster: LocalCluster, target: str, writer: str
) -> None:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": target, "keepOrder": "true"}
    options = sink_options(given, streaming=True)
    rows: Rows = [(b"one key", b"%d" % number) for number in range(1_000)]
    write_once(in_batches(rows), options, (writer, 0, 0))
    with pytest.raises(RowsDiffer, match="or in another order"):
        write_once(in_batches(shuffled(rows, 1)), options, (writer, 0, 0))
    with Consumer(
        target, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1_000
    ) as consumer:
        assert [record.value for record in consumer] == [value for _, value in rows]


def test_a_row_may_name_its_topic_and_a_topic_that_is_not_there_is_named(
    cluster: LocalCluster, target: str, writer: str
) -> None:
    options = sink_options({"kafka.bootstrap.servers": cluster.bootstrap, "kafka.max.block.ms": "500"}, streaming=True)
    batch = pa.record_batch({"topic": [target, target], "value": pa.array([b"1", b"2"], pa.binary())})
    write_once(iter([batch]), options, (writer, 0, 0))
    assert stored(cluster, target) == Counter([b"1", b"2"])
    nowhere = pa.record_batch({"topic": ["nowhere"], "value": pa.array([b"1"], pa.binary())})
    with pytest.raises(UnknownTopicOrPartition, match="'nowhere' does not exist"):
        write_once(iter([nowhere]), options, (writer, 1, 0))


@pytest.mark.usefixtures("small_chunks")
def test_the_fast_way_stores_everything_too(cluster: LocalCluster, target: str, options: SinkOptions) -> None:
    rows = rows_of(5_000)
    assert write_fast(in_batches(rows), options, 0).rows == len(rows)
    assert stored(cluster, target) == values(rows)


def test_an_attempt_that_begins_after_the_whole_write_has_ended_stores_nothing_and_is_told_what_to_do(
    cluster: LocalCluster, target: str, options: SinkOptions, writer: str
) -> None:
    rows = rows_of(100)
    write_once(in_batches(rows), options, (writer, 0, 0))
    SinkClient(options.client).end_all(writer)
    with pytest.raises(InvalidProducerEpoch, match=r"has ended; an attempt that was left behind may end"):
        write_once(in_batches(rows), options, (writer, 0, 0))
    assert sum(stored(cluster, target).values()) == 100
