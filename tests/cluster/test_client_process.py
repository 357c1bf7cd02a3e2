"""A client whose process ends, or forks, and nobody has closed it."""

import asyncio
import gc
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import pytest

from ottla.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from ottla.client.cluster import Cluster
from ottla.net.channel import Channel
from ottla.wire.errors import OttlaError
from tests.support.client_topics import MakeTopic
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster

WAIT_S = scaled(60.0)


FORGETFUL = """
import sys
from ottla.client import Admin, Consumer, Producer
bootstrap, topic = sys.argv[1:]
admin = Admin(bootstrap_servers=bootstrap)
admin.create_topic(topic)
consumer = Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
for n in range(1000):
    producer.send(topic, b"%d" % n)
"""

DROPPING = """
import sys
from ottla.client import Admin, Producer
bootstrap, topic = sys.argv[1:]
Admin(bootstrap_servers=bootstrap).create_topic(topic)
def send():
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    return [producer.send(topic, b"%d" % n) for n in range(2000)]
sent = send()
if "wait" in topic:
    assert [each.result(60).offset for each in sent] == list(range(2000))
"""

AWAITING = """
import asyncio, sys
from ottla.client import AsyncConsumer, AsyncProducer
async def main():
    producer = AsyncProducer(bootstrap_servers=sys.argv[1])
    consumer = AsyncConsumer(sys.argv[2], bootstrap_servers=sys.argv[1])
    sent = await producer.send(sys.argv[2], b"v")
    asyncio.ensure_future(consumer.poll(timeout=60))
    await sent
asyncio.run(main())
"""


def run_script(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def connections_of(cluster: Cluster) -> list[Channel]:
    return list(cluster._connections._channels.values())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_async_clients_that_nobody_has_any_more_deliver_and_hang_up(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = await asyncio.to_thread(make_topic)
    producer = AsyncProducer(bootstrap_servers=bootstrap, linger_ms=60_000)
    sent = await producer.send(topic, b"v")
    consumer = AsyncConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    clusters = [producer._cluster, consumer._cluster]
    del producer
    gc.collect()
    assert (await sent.result(timeout=WAIT_S)).offset == 0
    assert [record.value for record in await consumer.poll(timeout=WAIT_S)] == [b"v"]
    connections = [channel for cluster in clusters for channel in connections_of(cluster)]
    del consumer
    gc.collect()
    await eventually(lambda: not any(channel.usable for channel in connections))
    assert all(cluster.closed for cluster in clusters)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_consumer_that_nobody_has_any_more_hangs_up(bootstrap: str, make_topic: MakeTopic) -> None:
    consumer = Consumer(make_topic(), bootstrap_servers=bootstrap)
    consumer.seek_to_end(timeout=WAIT_S)
    connections = connections_of(consumer._twin._cluster)
    assert any(channel.usable for channel in connections)
    del consumer
    gc.collect()
    wait_until(lambda: not any(channel.usable for channel in connections))


@pytest.mark.parametrize("then", ["wait", "end"])
def test_producer_that_nobody_has_any_more_delivers_its_records_and_says_that_it_was_not_closed(
    bootstrap: str, then: str
) -> None:
    topic = f"dropped-{then}-{uuid.uuid4().hex[:12]}"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", DROPPING, bootstrap, topic]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "ResourceWarning: a producer that nobody has any more was not closed" in ended.stderr
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.latest_offsets(topic) == {TopicPartition(topic, 0): 2000}


def test_process_that_forgets_to_close_delivers_its_records_and_ends_in_silence(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = f"forgetful-{uuid.uuid4().hex[:8]}"
    ended = run_script(FORGETFUL, bootstrap, topic)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.latest_offsets(topic) == {TopicPartition(topic, 0): 1000}


def test_event_loop_that_ends_with_open_clients_ends_in_silence(bootstrap: str, make_topic: MakeTopic) -> None:
    ended = run_script(AWAITING, bootstrap, make_topic())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def in_child(work: Callable[[], None]) -> int:
    """Fork, do something in the child, and give the child's exit code; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr)
            os._exit(1)
    deadline = time.monotonic() + WAIT_S
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.02)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_is_told_that_its_parents_clients_are_not_its_own(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with (
        Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer,
        Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        parents = producer.send(topic, b"of the parent")

        def child() -> None:
            attempts: list[Callable[[], object]] = [
                lambda: producer.send(topic, b"v"),
                lambda: producer.flush(),
                lambda: parents.result(timeout=WAIT_S),
                lambda: consumer.poll(timeout=WAIT_S),
                lambda: consumer.position(topic, 0),
                lambda: admin.list_topics(),
            ]
            for attempt in attempts:
                with pytest.raises(OttlaError, match="before the process forked"):
                    attempt()
            producer.close()
            consumer.close()
            admin.close()
            with Producer(bootstrap_servers=bootstrap) as own:
                own.send(topic, b"of the child").result(timeout=WAIT_S)

        assert in_child(child) == 0
        producer.flush(timeout=WAIT_S)
        assert parents.result(timeout=WAIT_S).offset == 1
        assert [record.value for record in consumer.poll(timeout=WAIT_S)][:1] == [b"of the child"]
