"""A producer at its limits: sizes, full buffers, linger, and what it refuses."""

import threading
import uuid

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.client.records import FetchedBatch
from ottla.wire.errors import (
    ClientClosed,
    ConfigError,
    InvalidTopic,
    MessageTooLarge,
    NotEnoughReplicas,
    UnknownTopicOrPartition,
)
from tests.support.client_topics import WAIT_S, MakeTopic, read

pytestmark = pytest.mark.cluster

# --- sizes and limits ------------------------------------------------------------------------------------------------------


def test_batch_too_large_for_the_broker_is_split_and_all_of_it_arrives(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="2000")
    values = [b"%03d" % n + b"x" * 200 for n in range(100)]
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        sent = [producer.send(topic, value) for value in values]
        offsets = [each.result(timeout=WAIT_S).offset for each in sent]
        many = producer.send_many(topic, values).result(timeout=WAIT_S)
    assert offsets == list(range(100))
    assert [each.offset for each in many] == list(range(100, 200))
    assert [record.value for record in read(bootstrap, topic, 200)] == values + values


def test_s67_record_too_large_fails_alone(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        sent = [producer.send(topic, b"x" * (5000 if n == 5 else 10)) for n in range(10)]
        outcomes = [each.exception(timeout=WAIT_S) for each in sent]
        assert [type(outcome) for n, outcome in enumerate(outcomes) if outcome] == [MessageTooLarge]
        assert isinstance(outcomes[5], MessageTooLarge)
        with pytest.raises(MessageTooLarge, match="max_request_size"):
            producer.send(topic, b"x" * (8 * 1024 * 1024))
    assert len(read(bootstrap, topic, 9)) == 9


def test_s69_full_buffer_makes_senders_wait_and_loses_nothing(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, buffer_memory=20_000, batch_size=5_000) as producer:
        for n in range(2000):
            producer.send(topic, b"%06d" % n + b"x" * 94)
    assert [record.value[:6] for record in read(bootstrap, topic, 2000)] == [b"%06d" % n for n in range(2000)]


def test_s79_linger_collects_records_into_one_batch_and_flush_does_not_linger(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, linger_ms=100_000) as producer:
        sent = [producer.send(topic, b"v") for _ in range(50)]
        assert not any(each.done() for each in sent)
        producer.flush(timeout=WAIT_S)
        assert all(each.done() for each in sent)
        last = producer.send(topic, b"v")
    assert last.result(timeout=0).offset == 50  # close flushed it
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        batches: list[FetchedBatch] = []
        while sum(len(batch) for batch in batches) < 51:
            batches += consumer.poll_batches(timeout=WAIT_S)
    assert [len(batch) for batch in batches] == [50, 1]


def test_full_batch_goes_at_once_though_linger_is_long(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, linger_ms=100_000, batch_size=1000) as producer:
        sent = [producer.send(topic, b"x" * 84) for _ in range(10)]
        assert sent[0].result(timeout=WAIT_S).offset == 0


def test_flush_waits_for_what_was_sent_before_it_only(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    stop = threading.Event()
    with Producer(bootstrap_servers=bootstrap) as producer:

        def keep_sending() -> None:
            while not stop.is_set():
                producer.send(topic, b"x" * 100)

        sender = threading.Thread(target=keep_sending)
        sender.start()
        try:
            for _ in range(5):
                producer.flush(timeout=WAIT_S)
        finally:
            stop.set()
            sender.join()


def test_acks_0_sends_everything_and_knows_no_offsets(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap, acks=0) as producer:
        assert producer.send(topic, b"x" * 1000).result(timeout=WAIT_S).offset == -1
        for _ in range(20_000):
            producer.send(topic, b"x" * 1000)
    assert len(read(bootstrap, topic, 20_001)) == 20_001


# --- what is refused ---


def test_unknown_topic_is_named_with_the_addresses_after_max_block(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, max_block_ms=300) as producer:
        with pytest.raises(UnknownTopicOrPartition, match="nowhere") as caught:
            producer.send("nowhere", b"v")
        assert bootstrap in str(caught.value)
        assert caught.value.topic == "nowhere"
        with pytest.raises(InvalidTopic):
            producer.send("no spaces", b"v")


def test_topic_created_while_a_sender_waits_for_it_is_found(bootstrap: str) -> None:
    topic = f"producer-{uuid.uuid4().hex[:12]}"
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent: list[int] = []
        sender = threading.Thread(target=lambda: sent.append(producer.send(topic, b"v").result(WAIT_S).offset))
        sender.start()
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic(topic)
        sender.join(WAIT_S)
        assert sent == [0]
        assert producer.partitions_for(topic) == 1


def test_closed_producer_refuses_and_closing_twice_is_fine(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer(bootstrap_servers=bootstrap)
    producer.send(topic, b"v")
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"v")
    with pytest.raises(ClientClosed):
        producer.send_many(topic, [b"v"])
    assert len(read(bootstrap, topic, 1)) == 1


def test_from_config_takes_kafkas_names_and_misspelt_ones_get_a_hint(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer.from_config({"bootstrap.servers": bootstrap, "linger.ms": "1", "acks": "all"}) as producer:
        assert producer.send(topic, b"v").result(timeout=WAIT_S).offset == 0
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        Producer.from_config({"bootstrap.servers": bootstrap, "linger": 1})


def test_what_is_not_delivered_in_time_is_told_with_what_the_broker_said(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(min_insync_replicas="2")
    with Producer(bootstrap_servers=bootstrap, acks="all", delivery_timeout_ms=700) as producer:
        sent = producer.send(topic, b"x")
        with pytest.raises(NotEnoughReplicas, match="1 in sync, 2 needed"):
            sent.result(WAIT_S)
