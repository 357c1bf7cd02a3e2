"""What a user is told when things go wrong: the last real cause, once; and failed deliveries leave a trace."""

import asyncio
import logging
import subprocess
import sys
import time
from typing import Any

import pytest

from ottla.client import Admin, AsyncProducer, Producer, RecordMetadata
from ottla.local import LocalCluster
from ottla.wire.errors import ClientTimeout, MessageTooLarge, NotEnoughReplicas, OttlaError
from tests.support.client_topics import WAIT_S, MakeTopic
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "not delivered" in record.getMessage()]


# --- failed deliveries leave a trace ---------------------------------------------------------------------------------------


def test_failed_delivery_that_nobody_asks_about_is_a_warning_and_flush_counts_it(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"fits")
        producer.send(topic, b"x" * 5000)
        assert producer.flush() == 1
        assert producer.flush() == 0
    [line] = lines(caplog)
    assert f"count=1 topic={topic} reason=MessageTooLarge" in line


def test_failed_delivery_that_somebody_asks_about_is_no_warning(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send(topic, b"x" * 5000)
        producer.flush()
    assert isinstance(sent.exception(), MessageTooLarge)
    del sent
    assert lines(caplog) == []


def test_a_script_that_ends_without_asking_says_what_was_lost(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="2000")
    script = f"""
from ottla.client import Producer
producer = Producer(bootstrap_servers={bootstrap!r})
held = [producer.send({topic!r}, b"x" * 5000)]
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=scaled(60))
    assert f"records were not delivered count=1 topic={topic} reason=MessageTooLarge" in ended.stderr


def test_on_delivery_is_told_of_each_record(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(max_message_bytes="2000")
    of_one: list[tuple[OttlaError | None, RecordMetadata]] = []
    of_all: list[tuple[OttlaError | None, RecordMetadata]] = []
    with Producer(bootstrap_servers=bootstrap, on_delivery=lambda *told: of_all.append(told)) as producer:
        producer.send(topic, b"small", on_delivery=lambda error, where: of_one.append((error, where)))
        producer.send(topic, b"x" * 5000, on_delivery=lambda error, where: of_one.append((error, where)))
        producer.send_many(topic, [b"a", b"b"])
        assert producer.flush() == 1
    assert [type(error) for error, _ in of_one] == [type(None), MessageTooLarge]
    assert [(where.topic, where.offset) for _, where in of_one] == [(topic, 0), (topic, -1)]
    assert sorted(where.offset for _, where in of_all) == [-1, 0, 1, 2]
    assert lines(caplog) == []


def test_a_callback_that_fails_harms_nobody(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: object, where: object) -> None:
        raise RuntimeError("ouch")

    with Producer(bootstrap_servers=bootstrap, on_delivery=fail) as producer:
        topic = make_topic()
        assert producer.send(topic, b"1").result(WAIT_S).offset == 0
        assert producer.send(topic, b"2", on_delivery=fail).result(WAIT_S).offset == 1
    assert "a delivery callback failed" in caplog.text


async def test_asyncio_producer_tells_the_same(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(max_message_bytes="2000")
    told: list[OttlaError | None] = []
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send(topic, b"x" * 5000)
        await producer.send(topic, b"small", on_delivery=lambda error, where: told.append(error))
        assert await producer.flush() == 1
        await asyncio.sleep(0)
    assert told == [None]
    assert len(lines(caplog)) == 1


def test_with_left_by_an_exception_does_not_wait_for_the_delivery_timeout(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(min_insync_replicas="2")
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError), Producer(bootstrap_servers=bootstrap) as producer:  # 2 minutes
        producer.send(topic, b"never")
        raise ZeroDivisionError
    assert time.monotonic() - began < scaled(15)
    [line] = lines(caplog)
    assert f"count=1 topic={topic} reason=ClientClosed" in line


# --- the right diagnosis ---------------------------------------------------------------------------------------------------


def test_too_few_in_sync_replicas_are_told_as_such(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(min_insync_replicas="2")
    options: Any = {"bootstrap_servers": bootstrap, "delivery_timeout_ms": 2_000, "batch_size": 2_000}
    with Producer(**options) as producer:  # far more batches than may be in flight: most are never sent
        sent = [producer.send(topic, b"x" * 1000) for _ in range(500)]
        errors = [each.exception(WAIT_S) for each in sent]
    assert {type(error) for error in errors} == {NotEnoughReplicas}
    [text] = {str(error) for error in errors}
    assert text == f"not delivered to {topic}-0 within 2 s: {topic}-0: 1 in sync, 2 needed (min.insync.replicas)"


def test_flush_that_takes_too_long_names_the_last_cause(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(min_insync_replicas="2")
    with Producer(bootstrap_servers=bootstrap, delivery_timeout_ms=3_000) as producer:
        sent = producer.send(topic, b"x")
        with pytest.raises(ClientTimeout, match="1 in sync, 2 needed"):
            producer.flush(timeout=1)
        with pytest.raises(ClientTimeout, match="1 in sync, 2 needed"):
            sent.result(timeout=0.1)
        assert isinstance(sent.exception(WAIT_S), NotEnoughReplicas)


@pytest.mark.parametrize("given", [["--value", "x"], []])
def test_command_keeps_its_timeout_and_tells_the_reason(
    bootstrap: str, make_topic: MakeTopic, given: list[str]
) -> None:
    topic = make_topic(min_insync_replicas="2")
    began = time.monotonic()
    command = [sys.executable, "-m", "ottla.cli", "produce", topic, "-b", bootstrap, "--timeout", "2", *given]
    ended = subprocess.run(command, input="x\n" * 100, capture_output=True, text=True, timeout=scaled(60))
    assert time.monotonic() - began < scaled(20)
    assert ended.returncode == 3
    assert "1 in sync, 2 needed" in ended.stderr


def test_without_zookeeper_the_reason_is_zookeeper_and_brokers_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    with LocalCluster(brokers=1, broker_config={"zookeeper.session.timeout.ms": "1000"}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic("before", timeout=WAIT_S)
            cluster.zookeeper_servers.kill(0)
            for timeout in (1.0, 8.0):  # while the controller has its session, and when it has not
                with pytest.raises(ClientTimeout) as raised:
                    admin.create_topic("after", timeout=timeout)
                assert "ZooKeeper" in str(raised.value)
                assert "not the controller" not in str(raised.value)
        cluster.kill(0)
        with Admin(bootstrap_servers=cluster.bootstrap) as admin, pytest.raises(ClientTimeout) as raised:
            admin.list_topics(timeout=1.0)
        assert str(raised.value).count(cluster.bootstrap) == 2  # the address, and what connecting to it said
        assert str(raised.value).count("tried") == 1
        with (
            Producer(bootstrap_servers=cluster.bootstrap, max_block_ms=1000) as producer,
            pytest.raises(ClientTimeout) as unsent,
        ):
            producer.send("before", b"")
        assert str(unsent.value).count("tried") == 1
