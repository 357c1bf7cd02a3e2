"""A task and its slice, without Spark around it: what is lost, deleted or led by somebody else while it is read."""

import pytest

from ottla.client import Admin
from ottla.spark_jobs.errors import DataLost
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import read_options
from ottla.spark_jobs.slice_reader import ROWS, read_slice
from ottla.wire.errors import ClientTimeout
from ottla.wire.names import TopicPartition
from tests.support.spark import eventually, produce

VALUES = [b"value-%06d" % number for number in range(20_000)]


def options(broker, topic, **more):
    return read_options({"bootstrap.servers": broker.bootstrap, "subscribe": topic, **more})


def offsets(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_slice_is_just_its_offsets_in_batches_that_spark_likes(broker, make_topic):
    topic = make_topic()
    produce(broker.bootstrap, topic, VALUES)
    batches = list(read_slice(options(broker, topic), ("offset",), Slice(topic, 0, 1234, 19_000)))
    assert offsets(batches) == list(range(1234, 19_000))
    assert max(batch.num_rows for batch in batches) <= 2 * ROWS
    assert len(batches) <= 4


def test_records_that_retention_took_are_an_error_or_passed_over(broker, make_topic):
    topic = make_topic(segment_bytes="100000", retention_bytes="100000")
    produce(broker.bootstrap, topic, VALUES, batch_size=16_000)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        eventually(lambda: begin_of(admin, topic) > 0)
        begin = begin_of(admin, topic)
    part = Slice(topic, 0, 0, len(VALUES))
    with pytest.raises(DataLost, match="give failOnDataLoss=false to go on"):
        list(read_slice(options(broker, topic), ("offset",), part))
    found = offsets(read_slice(options(broker, topic, failOnDataLoss="false"), ("offset",), part))
    assert found[0] >= begin
    assert found == list(range(found[0], len(VALUES)))


def begin_of(admin, topic):
    from ottla.client import Consumer

    with Consumer(
        bootstrap_servers=",".join(f"{one.host}:{one.port}" for one in admin.describe_cluster().brokers)
    ) as consumer:
        return consumer.beginning_offsets([(topic, 0)])[TopicPartition(topic, 0)]


def test_a_topic_made_anew_while_it_is_read_is_data_lost(broker, make_topic):
    topic = make_topic()
    produce(broker.bootstrap, topic, VALUES[:10])
    with pytest.raises(DataLost, match="made anew"):
        list(read_slice(options(broker, topic), ("offset",), Slice(topic, 0, 0, 10, topic_id="an earlier one")))


def test_records_that_never_come_are_told_in_time(broker, make_topic):
    topic = make_topic()
    produce(broker.bootstrap, topic, VALUES[:10])
    impatient = options(broker, topic, **{"kafkaConsumer.pollTimeoutMs": "700"})
    with pytest.raises(
        ClientTimeout, match=r"committed up to 20, did not come within kafkaConsumer\.pollTimeoutMs=700"
    ):
        list(read_slice(impatient, ("offset",), Slice(topic, 0, 0, 20)))


def test_a_reader_that_stops_early_leaves_nothing_behind(broker, make_topic):
    topic = make_topic()
    produce(broker.bootstrap, topic, VALUES)
    for _ in range(3):
        reading = read_slice(options(broker, topic), ("offset",), Slice(topic, 0, 0, len(VALUES)))
        assert next(reading).column("offset")[0].as_py() == 0
        reading.close()
    assert len(offsets(read_slice(options(broker, topic), ("offset",), Slice(topic, 0, 5, 8)))) == 3
