"""Kafka's clients in consumer groups: rebalances, static and cooperative members, commits; and one group of two dialects."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import TopicPartition

from ottla.client import Consumer
from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import WAIT_S, Confluent, Sent

PARTITIONS = 6


class Member:
    """A confluent consumer in a group, and what it was given."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str = "range", instance: str = "") -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 200,
        }  # fmt: skip
        if instance:
            options["group.instance.id"] = instance
        self.consumer = confluent_kafka.Consumer(options)
        self.revoked = 0
        self.values: list[bytes | None] = []
        self.consumer.subscribe([topic], on_revoke=self._on_revoke)

    def _on_revoke(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += len(partitions)

    def poll(self) -> None:
        found = self.consumer.poll(0.02)
        if found is not None:
            assert found.error() is None, found.error()
            self.values.append(found.value())

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}


def _poll_until(members: list[Any], condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, [member.partitions for member in members]
        for member in members:
            member.poll()


def _shared(members: list[Any]) -> bool:
    """Whether each partition has one member, and the members as many as is fair."""
    held = [number for member in members for number in member.partitions]
    fair = all(len(member.partitions) == PARTITIONS // len(members) for member in members)
    return sorted(held) == list(range(PARTITIONS)) and fair


def _fill(bootstrap: str, topic: str, count: int = 50) -> set[bytes]:
    for partition in range(PARTITIONS):
        records = [Sent(f"{partition}-{i}".encode()) for i in range(count)]
        Confluent().write(bootstrap, topic, records, partition=partition)
    return {f"{partition}-{i}".encode() for partition in range(PARTITIONS) for i in range(count)}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go_and_share_what_there_is(
    bootstrap: str, make_topic: MakeTopic, name: str, strategy: str
) -> None:
    topic = make_topic(PARTITIONS)
    written = _fill(bootstrap, topic)
    members = [Member(bootstrap, name, topic, strategy)]
    _poll_until(members, lambda: _shared(members))
    members += [Member(bootstrap, name, topic, strategy) for _ in range(2)]
    _poll_until(members, lambda: _shared(members))
    members.pop(1).consumer.close()
    members.pop(1).consumer.close()
    _poll_until(members, lambda: _shared(members))
    for member in members:
        member.consumer.close()
    assert {value for member in members for value in member.values} <= written


def test_cooperative_members_keep_what_they_have(bootstrap: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(PARTITIONS)
    first = Member(bootstrap, name, topic, "cooperative-sticky")
    _poll_until([first], lambda: _shared([first]))
    members = [first, Member(bootstrap, name, topic, "cooperative-sticky")]
    _poll_until(members, lambda: _shared(members))
    assert first.revoked == PARTITIONS // 2
    for member in members:
        member.consumer.close()


def test_a_static_member_that_returns_disturbs_nobody(bootstrap: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(PARTITIONS)
    members = [Member(bootstrap, name, topic, instance=f"instance-{i}") for i in range(2)]
    _poll_until(members, lambda: _shared(members))
    mine, revoked = members[1].partitions, members[0].revoked  # the first may have had all, before the second came
    members.pop().consumer.close()
    back = Member(bootstrap, name, topic, instance="instance-1")
    _poll_until([*members, back], lambda: back.partitions == mine)
    assert members[0].revoked == revoked
    for member in [*members, back]:
        member.consumer.close()


# --- what was read is committed, and read on from there ----------------------------------------------------------------------


def _confluent_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        found = consumer.consume(count, WAIT_S)
        consumer.commit(asynchronous=False)
        return [one.value() for one in found]
    finally:
        consumer.close()


def _aiokafka_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        async with consumer:
            found = [await consumer.getone() for _ in range(count)]
            await consumer.commit({AioPartition(topic, 0): found[-1].offset + 1})
            return [one.value for one in found]

    return asyncio.run(asyncio.wait_for(read(), WAIT_S))


def _kafka_python_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes | None]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        consumer_timeout_ms=int(WAIT_S * 1000),
    )  # fmt: skip
    try:
        found = [next(consumer) for _ in range(count)]
        consumer.commit()
        return [one.value for one in found]
    finally:
        consumer.close()


def _ours_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes | None]:
    options: Any = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
    with Consumer(topic, enable_auto_commit=False, **options) as consumer:
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(timeout=WAIT_S, max_records=count - len(found))
        consumer.commit()
        return [one.value for one in found]


def test_each_client_goes_on_where_the_one_before_committed(bootstrap: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic()
    values: list[bytes | None] = [str(i).encode() for i in range(40)]
    Confluent().write(bootstrap, topic, [Sent(value) for value in values])
    readers = [_confluent_reads, _aiokafka_reads, _kafka_python_reads, _ours_reads]
    assert [value for read in readers for value in read(bootstrap, topic, name, 10)] == values


# --- one group, two dialects -------------------------------------------------------------------------------------------------


class OurMember:
    """Ours, with the face of ``Member``."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: Any) -> None:
        self.consumer = Consumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            partition_assignment_strategy=strategy, heartbeat_interval_ms=200,
        )  # fmt: skip
        self.values: list[bytes | None] = []

    def poll(self) -> None:
        self.values += [one.value for one in self.consumer.poll(timeout=0.02)]

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_ours_and_librdkafka_share_a_group(
    bootstrap: str, make_topic: MakeTopic, name: str, strategy: str, ours_first: bool
) -> None:
    topic = make_topic(PARTITIONS)
    written = _fill(bootstrap, topic)
    kinds: list[Any] = [OurMember, Member] if ours_first else [Member, OurMember]
    members: list[Any] = [kinds[0](bootstrap, name, topic, strategy)]
    _poll_until(members, lambda: _shared(members))
    members.append(kinds[1](bootstrap, name, topic, strategy))
    _poll_until(members, lambda: _shared(members))
    _poll_until(members, lambda: {value for member in members for value in member.values} == written)
    for member in members:
        member.consumer.close()
