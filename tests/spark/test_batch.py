"""spark.read.format("ottla") over a live broker."""

import time
from datetime import UTC, datetime

import pytest

from ottla.client import Producer
from ottla.wire.batch import MAGIC_KAFKA
from ottla.wire.records import encode_batch
from tests.support.machine import scaled
from tests.support.raw_client import RawClient
from tests.support.spark import produce


def rows(frame):
    return sorted(frame.collect(), key=lambda row: (row["partition"], row["offset"]))


def test_rows_are_what_was_produced(spark, make_topic):
    topic = make_topic(partitions=2, retention_ms="-1")
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        producer.send(topic, b"zero", key=b"k", partition=0, timestamp_ms=1_700_000_000_123).result(timeout=scaled(10))
        producer.send(topic, None, key=b"", partition=1, headers=[("h", b"1"), ("h", None)], timestamp_ms=1).result(
            timeout=10
        )
    found = rows(spark.batch(topic, includeHeaders="true"))
    assert [row.asDict(recursive=True) for row in found] == [
        {
            "key": b"k", "value": b"zero", "topic": topic, "partition": 0, "offset": 0,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000), "timestampType": 0, "headers": None,
        },
        {
            "key": b"", "value": None, "topic": topic, "partition": 1, "offset": 0,
            "timestamp": datetime(1970, 1, 1, 0, 0, 0, 1000), "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        },
    ]  # fmt: skip


def test_columns_are_those_of_sparks_kafka_source(spark, make_topic):
    assert spark.batch(make_topic()).dtypes == [
        ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"),
        ("timestamp", "timestamp"), ("timestampType", "int"),
    ]  # fmt: skip


def test_an_empty_topic_has_no_rows(spark, make_topic):
    assert spark.batch(make_topic(partitions=3)).count() == 0


def test_some_columns_in_another_order(spark, make_topic):
    topic = make_topic()
    produce(spark.bootstrap, topic, [b"a", b"b"])
    frame = spark.batch(topic, schema="offset bigint, value binary")
    assert frame.columns == ["offset", "value"]
    assert sorted(map(tuple, frame.collect())) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(spark, make_topic, codec):
    topic = make_topic()
    values = [b"value-%06d" % number for number in range(5000)]
    produce(spark.bootstrap, topic, values, compression_type=codec)
    assert sorted(row["value"] for row in spark.batch(topic, schema="value binary").collect()) == values


def test_batches_of_kafkas_own_format_are_read(spark, make_topic, broker):
    topic = make_topic()
    now = int(time.time() * 1000)
    batch = encode_batch([b"a", None], keys=[None, b"k"], timestamps=[now, now + 5], magic=MAGIC_KAFKA)
    host, port = broker.address(0).split(":")
    with RawClient((host, int(port))) as client:
        client.wait_until_led(topic)
        client.produce(topic, batch)
    produce(spark.bootstrap, topic, [b"columnar"])
    found = rows(spark.batch(topic))
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [
        (0, None, b"a"), (1, b"k", None), (2, None, b"columnar"),
    ]  # fmt: skip
    assert found[1]["timestamp"] == datetime.fromtimestamp((now + 5) / 1000, UTC).replace(tzinfo=None)


def test_a_read_begins_and_ends_where_it_is_told(spark, make_topic):
    topic = make_topic(partitions=2, retention_ms="-1")
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        for partition in (0, 1):
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1000 * number)

    def offsets(**options):
        return [(row["partition"], row["offset"]) for row in rows(spark.batch(topic, **options))]

    given = offsets(
        startingOffsets=f'{{"{topic}": {{"0": 8, "1": -2}}}}', endingOffsets=f'{{"{topic}": {{"0": -1, "1": 2}}}}'
    )
    assert given == [(0, 8), (0, 9), (1, 0), (1, 1)]
    assert offsets(startingTimestamp="7500", endingTimestamp="9000") == [(0, 8), (1, 8)]
    by_time = f'{{"{topic}": {{"0": 9000, "1": 20000}}}}'
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(startingOffsetsByTimestamp=by_time, **strategy) == [(0, 9)]


def test_slices_of_one_partition_are_its_rows_again(spark, make_topic):
    topic = make_topic()
    produce(spark.bootstrap, topic, [b"%d" % number for number in range(30_000)], batch_size=20_000)
    frame = spark.batch(topic, minPartitions="7")
    assert frame.rdd.getNumPartitions() == 7
    assert [row["offset"] for row in rows(frame)] == list(range(30_000))


def test_filters_narrow_what_is_fetched_and_change_no_result(spark, make_topic):
    topic = make_topic(partitions=3)
    produce(spark.bootstrap, topic, [b"%d" % number for number in range(3000)])

    def count(condition, **options):
        frame = spark.batch(topic, **options).where(condition)
        return frame.count(), frame.rdd.getNumPartitions()

    for condition in (
        "partition = 1 and offset >= 100 and offset < 150",
        "partition in (0, 2) and offset = 7",
        f"topic = '{topic}' and timestamp > timestamp'2020-01-01' and offset <= 3",
        "timestamp > timestamp'2200-01-01'",
        "offset > 5 or partition = 1",
        "partition <> 1 and value is not null",
    ):
        assert count(condition, pushdown="true")[0] == count(condition)[0], condition
    assert count("partition = 1 and offset < 5", pushdown="true") == (5, 1)


def test_all_topics_that_match_are_read(spark, make_topic):
    topics = [make_topic(), make_topic()]
    for topic in topics:
        produce(spark.bootstrap, topic, [topic.encode()])
    pattern = "|".join(topics)
    reader = spark.session.read.format("ottla").option("bootstrap.servers", spark.bootstrap)
    assert sorted(row["topic"] for row in reader.option("subscribePattern", pattern).load().collect()) == sorted(topics)
    assigned = f'{{"{topics[0]}": [0]}}'
    reader = spark.session.read.format("ottla").option("bootstrap.servers", spark.bootstrap)
    assert [row["topic"] for row in reader.option("assign", assigned).load().collect()] == [topics[0]]


def test_records_larger_than_a_fetch_are_read(spark, make_topic):
    topic = make_topic(max_message_bytes="20000000")
    values = [bytes([number]) * 700_000 for number in range(5)]
    produce(spark.bootstrap, topic, values)
    found = spark.batch(topic, schema="value binary", kafka__max__partition__fetch__bytes="1000").collect()
    assert sorted(row["value"] for row in found) == values
