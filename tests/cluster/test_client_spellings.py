"""What people write: partitions as one thing or two, no timeout, and what objects say of themselves."""

import pytest

from ottla.client import Admin, AsyncConsumer, Consumer, OffsetAndMetadata, Producer, TopicPartition
from ottla.client.errors import ConfigError
from tests.support.client_topics import WAIT_S, MakeTopic, offsets, take

pytestmark = pytest.mark.cluster


def test_partitions_are_named_in_any_shape(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=10, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        take(consumer, 20)
        consumer.seek(first, 7)
        assert consumer.position(first) == consumer.position(topic, 0) == 7
        consumer.pause([first])
        consumer.seek_to_beginning([second], timeout=WAIT_S)
        assert offsets(take(consumer, 10)) == list(range(10))
        consumer.seek_to_end(second)
        assert consumer.position(second) == 10
        consumer.resume(first)
        assert offsets(consumer.poll(None)) == [7, 8, 9]
        assert consumer.end_offsets(first) == consumer.end_offsets([first]) == {first: 10}
        assert consumer.beginning_offsets((topic, 1)) == {second: 0}
        assert consumer.offsets_for_times({(topic, 0): 2**62}) == {first: None}
        with pytest.raises(ConfigError):
            consumer.pause(topic)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="no partition"):
            consumer.end_offsets(topic)  # type: ignore[arg-type]


def test_what_was_committed_is_asked_of_one_or_of_many(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=3, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    options = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "group.id": topic}
    with Consumer.from_config([topic], options) as consumer:
        take(consumer, 6)
        consumer.commit({first: 2})
        assert consumer.committed(first) == {first: OffsetAndMetadata(2)}
        assert consumer.committed([first, (topic, 1)]) == {first: OffsetAndMetadata(2), second: None}


async def test_asyncio_consumer_takes_the_same(bootstrap: str, make_filled_topic: MakeTopic) -> None:
    topic = make_filled_topic(records=5)
    where = TopicPartition(topic, 0)
    async with AsyncConsumer(topic, bootstrap_servers=f"PLAINTEXT://{bootstrap}") as consumer:
        await consumer.seek_to_beginning(where)
        assert offsets(await consumer.poll(None)) == [0, 1, 2, 3, 4]
        await consumer.seek(where, 3)
        assert await consumer.position(where) == 3


def test_objects_say_what_they_are(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Admin(bootstrap_servers=bootstrap) as admin,
        Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        sent = producer.send(topic, b"v")
        assert repr(sent).startswith(f"<RecordDelivery to {topic}-0, ")
        sent.result(WAIT_S)
        assert repr(sent) == f"<RecordDelivery to {topic}-0, delivered>"
        many = producer.send_many(topic, [b"a", b"b"])
        assert repr(many.result(WAIT_S)) == "<SentRecords, 2 in 1 batches>"
        assert repr(producer) == f"<Producer at {bootstrap}>"
        assert repr(admin) == f"<Admin at {bootstrap}>"
        take(consumer, 3)
        assert repr(consumer) == f"<Consumer of {topic}-0 at {bootstrap}>"
    assert repr(producer) == f"<Producer at {bootstrap} (closed)>"


def test_consumer_given_a_list_says_how_to_name_topics(bootstrap: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Consumer(["a", "b"], bootstrap_servers=bootstrap)  # type: ignore[arg-type]
    assert "one by one" in (refused.value.hint or "")
