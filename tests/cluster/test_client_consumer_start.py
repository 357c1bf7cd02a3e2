"""Where a consumer begins, and which topics and partitions it reads."""

import uuid
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import (
    ConfigError,
    InvalidTopic,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tests.support.client_topics import WAIT_S, MakeTopic, offsets, take, write
from tests.support.cluster import wait_until

pytestmark = pytest.mark.cluster

BRIEF_S = 0.3
"""How long a test waits for what must not come."""

# --- where to begin ---


def test_latest_reads_what_comes_and_earliest_what_there_is(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=10)
    with (
        Consumer(topic, bootstrap_servers=bootstrap) as latest,
        Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as earliest,
    ):
        assert latest.position(topic, 0, timeout=WAIT_S) == 10
        write(bootstrap, topic, range(10, 12))
        assert offsets(take(latest, 2)) == [10, 11]
        assert offsets(take(earliest, 12)) == list(range(12))


def test_none_asks_for_a_position_and_goes_on_once_it_has_one(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=10)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="auto_offset_reset is 'none'"):
                consumer.poll(timeout=WAIT_S)
        with pytest.raises(OffsetOutOfRange):
            consumer.position(topic, 0)
        consumer.seek(topic, 0, 4)
        assert offsets(take(consumer, 6)) == [4, 5, 6, 7, 8, 9]
        consumer.seek(topic, 0, 1000)
        with pytest.raises(OffsetOutOfRange, match="offset 1000"):
            consumer.poll(timeout=WAIT_S)
        consumer.seek_to_beginning()
        assert offsets(take(consumer, 1)) == [0]


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10)])
def test_offset_out_of_range_begins_anew_where_the_config_says(
    bootstrap: str, make_filled_topic: MakeTopic, reset: Any, first: int
) -> None:
    topic = make_filled_topic(records=10)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset=reset) as consumer:
        consumer.seek(topic, 0, 1000)
        wait_until(lambda: consumer.poll(timeout=0.05) != [] or consumer.position(topic, 0) == 10)
        if reset == "latest":
            write(bootstrap, topic, range(10, 11))
            assert offsets(take(consumer, 1)) == [first]
        consumer.seek(topic, 0, first)
        assert offsets(take(consumer, 1)) == [first]


def test_offsets_are_looked_up_by_end_and_by_time(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(partitions=2)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(10):
            producer.send(topic, b"v", partition=0, timestamp_ms=1000 + n * 100).result(timeout=WAIT_S)
    with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        both = [(topic, 0), (topic, 1)]
        assert consumer.beginning_offsets(both) == {(topic, 0): 0, (topic, 1): 0}
        assert consumer.end_offsets(both) == {(topic, 0): 10, (topic, 1): 0}
        times = {(topic, 0): 1450, (topic, 1): 0}
        assert consumer.offsets_for_times(times) == {(topic, 0): (5, 1500), (topic, 1): None}
        assert consumer.offsets_for_times({(topic, 0): 1901}) == {(topic, 0): None}
        with pytest.raises(UnknownTopicOrPartition, match=f"no partition {topic}-7"):
            consumer.end_offsets([(topic, 7)], timeout=0.2)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.earliest_offsets(topic) == {(topic, 0): 0, (topic, 1): 0}
        assert admin.latest_offsets(topic) == {(topic, 0): 10, (topic, 1): 0}


def test_lookups_do_not_wait_behind_a_fetch(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=10)
    with Consumer(topic, bootstrap_servers=bootstrap, fetch_max_wait_ms=60_000) as consumer:
        consumer.poll(timeout=BRIEF_S)  # a fetch waits at the end of the log from now on
        assert consumer.end_offsets([(topic, 0)], timeout=20) == {(topic, 0): 10}


# --- topics ---


def test_several_topics_are_read_at_once_and_subscribe_changes_them(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    first, second = make_filled_topic(records=10), make_filled_topic(records=10)
    with Consumer(first, second, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert {record.topic for record in take(consumer, 20)} == {first, second}
        third = make_filled_topic(records=10)
        consumer.subscribe([second, third])
        assert {record.topic for record in take(consumer, 10)} == {third}
        assert {where.topic for where in consumer.assignment()} == {second, third}
        with pytest.raises(InvalidTopic):
            consumer.subscribe(["no spaces"])


def test_topic_that_appears_later_is_read_from_its_beginning(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    here, later = make_filled_topic(), f"later-{uuid.uuid4().hex[:8]}"
    with Consumer(here, later, bootstrap_servers=bootstrap) as consumer:
        assert consumer.position(here, 0, timeout=WAIT_S) == 0
        write(bootstrap, here, range(5))
        assert offsets(take(consumer, 5)) == [0, 1, 2, 3, 4]  # the missing one holds up nothing
        make_filled_topic(records=5, name=later)
        assert [(record.topic, record.offset) for record in take(consumer, 5)] == [(later, n) for n in range(5)]


def test_topic_deleted_and_created_anew_is_read_from_its_beginning(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=30)
    with Consumer(topic, bootstrap_servers=bootstrap, metadata_max_age_ms=500) as consumer:
        assert consumer.position(topic, 0, timeout=WAIT_S) == 30
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topic(topic)
        make_filled_topic(records=10, name=topic)
        assert offsets(take(consumer, 10)) == list(range(10))


def test_unknown_topic_is_named_by_poll_and_found_when_it_is_made(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = f"unknown-{uuid.uuid4().hex[:8]}"
    with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        with pytest.raises(UnknownTopicOrPartition, match=topic) as caught:
            consumer.poll(timeout=BRIEF_S)
        assert bootstrap in str(caught.value)
        make_filled_topic(records=3, name=topic)
        assert offsets(take(consumer, 3)) == [0, 1, 2]
    with pytest.raises(InvalidTopic):
        Consumer("no spaces", bootstrap_servers=bootstrap)
    with Consumer(bootstrap_servers=bootstrap) as consumer, pytest.raises(ConfigError, match="nothing to read"):
        consumer.poll()


def test_unknown_partition_is_named_and_does_not_hold_up_the_others(
    bootstrap: str, make_filled_topic: MakeTopic
) -> None:
    topic = make_filled_topic(records=5)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 9)])
        with pytest.raises(UnknownTopicOrPartition, match=f"no partition {topic}-9"):
            consumer.poll(timeout=BRIEF_S)
        consumer.assign([(topic, 9), (topic, 0)])
        assert len(take(consumer, 5)) == 5


def test_records_lost_to_retention_are_skipped_and_the_rest_is_read(cluster1: LocalCluster, bootstrap: str) -> None:
    topic = f"retention-{uuid.uuid4().hex[:8]}"
    settings = {"log.retention.check.interval.ms": "100", "log.segment.bytes.min": "2000"}
    with LocalCluster(brokers=1, broker_config=settings) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic(topic, config={"segment.bytes": "2000", "retention.bytes": "4000"})
            with Producer(bootstrap_servers=cluster.bootstrap) as producer:
                for n in range(100):
                    producer.send(topic, b"%03d" % n + b"x" * 300).result(timeout=WAIT_S)
            wait_until(lambda: admin.earliest_offsets(topic)[TopicPartition(topic, 0)] > 50)
            first = admin.earliest_offsets(topic)[TopicPartition(topic, 0)]
        with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.seek(topic, 0, 0)
            consumer.assign([(topic, 0)])
            assert offsets(take(consumer, 100 - first)) == list(range(first, 100))
        with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.seek(topic, 0, 0)
            consumer.assign([(topic, 0)])
            with pytest.raises(OffsetOutOfRange) as caught:
                consumer.poll(timeout=WAIT_S)
            assert (caught.value.topic, caught.value.partition) == (topic, 0)
