"""What Kafka's clients are told where something is wrong, and what is made for them where nothing was."""

import asyncio
import socket
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import CLIENTS, WAIT_S, Confluent, KafkaPython, Sent
from tests.support.kafka_values import frame


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_a_topic_that_is_written_to_is_made(bootstrap: str, name: str, writer: Any) -> None:
    writer.write(bootstrap, name, [Sent(b"first", timestamp_ms=1)])
    assert [one.value for one in writer.read(bootstrap, name, 1)] == [b"first"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topic(name).partitions) == 1


def test_a_topic_is_not_made_for_those_who_only_look(bootstrap: str, name: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    consumer.subscribe([name])
    found = consumer.poll(WAIT_S)
    error = found.error() if found is not None else None
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()


@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_kafkas_internal_topics_are_not_made(bootstrap: str, internal: str) -> None:
    """Or monitors such as Burrow would read offsets from an ordinary topic without any, and find nothing wrong."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 2000})
    producer.produce(internal, b"x")
    producer.list_topics(internal, timeout=WAIT_S)
    producer.purge()
    producer.flush(WAIT_S)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert internal not in admin.list_topics()


def test_a_name_that_no_topic_can_have_is_refused(bootstrap: str) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match=r"_UNKNOWN_TOPIC|TOPIC_EXCEPTION"):
        Confluent().write(bootstrap, "no/such name", [Sent(b"x")])


def test_no_topic_is_made_where_the_broker_is_told_not_to(name: str) -> None:
    with LocalCluster(brokers=1, broker_config={"auto.create.topics.enable": "false"}) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 2000})
        failed: list[Any] = []
        producer.produce(name, b"x", on_delivery=lambda error, _: failed.append(error))
        producer.flush(WAIT_S)
        assert [error.name() for error in failed] in (["_MSG_TIMED_OUT"], ["_UNKNOWN_TOPIC"], ["UNKNOWN_TOPIC_OR_PART"])
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            assert name not in admin.list_topics()


def test_a_record_that_is_too_large_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="10000")
    with pytest.raises(confluent_kafka.KafkaException, match="MSG_SIZE_TOO_LARGE"):
        Confluent().write(bootstrap, topic, [Sent(b"x" * 20_000)])
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        KafkaPython().write(bootstrap, topic, [Sent(b"x" * 20_000)])

    async def write() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"x" * 20_000)

    with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
        asyncio.run(asyncio.wait_for(write(), WAIT_S))
    Confluent().write(bootstrap, topic, [Sent(b"small")])


def test_transactions_are_refused_at_once(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "of mine"})
    with pytest.raises(
        confluent_kafka.KafkaException, match=r"CLUSTER_AUTHORIZATION_FAILED.*there are no transactions here"
    ):
        producer.init_transactions(WAIT_S)


def test_transactions_of_aiokafka_are_refused_at_once(bootstrap: str) -> None:
    async def begin() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="of mine") as producer:
            await producer.begin_transaction()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(asyncio.wait_for(begin(), WAIT_S))


def _exchange(bootstrap: str, request: bytes) -> bytes:
    """What the broker says to a frame, until it hangs up or an answer has come."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall(len(request).to_bytes(4, "big") + request)
        return connection.recv(65536)


def test_a_version_that_nobody_knows_is_told_which_ones_are(bootstrap: str) -> None:
    answer = _exchange(bootstrap, frame(18, 99, True, b"\x02x\x02y\x00"))
    assert answer[8:10] == (35).to_bytes(2, "big")


@pytest.mark.parametrize(
    "request_", [frame(3, 99, True, b""), frame(99, 0, False, b""), frame(3, 9, True, b"\xff" * 9)]
)
def test_what_cannot_be_answered_ends_the_connection(bootstrap: str, request_: bytes) -> None:
    assert _exchange(bootstrap, request_) == b""
