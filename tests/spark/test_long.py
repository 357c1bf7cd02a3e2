"""What takes minutes: ``make spark-test``."""

import threading
import zlib
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from tests.support.machine import scaled
from tests.support.spark import Spark, eventually
from tests.support.spark_query import QueryProcess
from tests.support.workload import leader_of, make_topic

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

RECORDS = 5_000_000
BLOCK = 50_000
SUMS = ("count(*) as n", "sum(crc32(value)) as crc", "count(distinct partition, offset) as places")


@pytest.fixture(scope="module")
def three() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, broker_config={"replica.high.watermark.checkpoint.interval.ms": "500"}) as cluster:
        yield cluster


def test_five_million_records_are_counted_and_summed_from_brokers_and_from_files(session, three):
    topic = make_topic(three, partitions=6)
    crc = 0
    with Producer(bootstrap_servers=three.bootstrap) as producer:
        for start in range(0, RECORDS, BLOCK):
            values = [b"%099d" % number for number in range(start, start + BLOCK)]
            crc += sum(map(zlib.crc32, values))
            producer.send_many(topic, values)
        producer.flush(120)
    spark = Spark(session, three.bootstrap)
    expected = (RECORDS, crc, RECORDS)
    assert tuple(spark.batch(topic).selectExpr(*SUMS).collect()[0]) == expected
    folders = ",".join(str(three.data_path(broker)) for broker in three.brokers)
    eventually(lambda: spark.files(topic, folders).count() == RECORDS, scaled(60))
    assert tuple(spark.files(topic, folders).selectExpr(*SUMS).collect()[0]) == expected


class Writer:
    """Goes on producing until it is stopped; what was acknowledged is what must be found."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap)
        self._topic = topic
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            values = [b"%d" % number for number in range(self.sent, self.sent + 500)]
            self._producer.send_many(self._topic, values).result(timeout=scaled(60))
            self.sent += len(values)
            self._stopping.wait(0.02)

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join(90)
        self._producer.close()
        return self.sent


def test_no_record_is_missing_or_twice_when_a_leader_and_then_the_query_are_killed(session, three, tmp_path):
    topic = make_topic(three, partitions=3)
    writer = Writer(three.bootstrap, topic)
    try:
        with QueryProcess(three.bootstrap, topic, tmp_path, "on", tmp_path / "first.log") as query:
            query.wait_rows(1)
            with Admin(bootstrap_servers=three.bootstrap) as admin:
                victim = leader_of(admin, topic)
            three.kill(victim)
            query.wait_rows(query.rows() + 5000)
        with QueryProcess(three.bootstrap, topic, tmp_path, "on", tmp_path / "second.log") as query:
            query.wait_rows(1)
            three.start(victim)
            query.wait_rows(query.rows() + 2000)
    finally:
        sent = writer.stop()
    with QueryProcess(three.bootstrap, topic, tmp_path, "now", tmp_path / "third.log") as query:
        query.wait_end()
    found = session.read.parquet(f"{tmp_path}/out")
    values = [int(row["value"]) for row in found.select("value").collect()]
    assert len(values) == len(set(values)), "none twice"
    assert set(values) == set(range(sent)), "none missing"
