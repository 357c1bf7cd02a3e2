"""What a member says too late, of what is not its own any more or not what it was: it changes nothing for the others."""

import time
import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.errors import GroupMaxSizeReached, IllegalGeneration, InconsistentTopicId
from tests.support.client_topics import MakeTopic
from tests.support.cluster import wait_until
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

WAIT_S = scaled(20.0)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as opened:
        yield opened


def member(bootstrap: str, group: str, topic: str | None, **options: object) -> Consumer:
    settings = {
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 3_000,
        "heartbeat_interval_ms": 200,
        "enable_auto_commit": False,
    }
    names = (topic,) if topic is not None else ()
    return Consumer(*names, bootstrap_servers=bootstrap, group_id=group, **{**settings, **options})  # type: ignore[arg-type]


def read(consumer: Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(offsets) < count:
        assert time.monotonic() < deadline, f"{len(offsets)} of {count} records came"
        offsets += [record.offset for record in consumer.poll(0.2)]
    return offsets


def committed(admin: Admin, group: str, where: TopicPartition) -> int | None:
    found = admin.group_offsets(group).get(where)
    return found.offset if found is not None else None


def lose_it_to_another(bootstrap: str, admin: Admin, group: str, topic: str, first: Consumer) -> None:
    """The first has not polled for too long; the second has read on, committed 100 and gone."""
    where = TopicPartition(topic, 0)
    steps = first._twin._group.steps  # type: ignore[union-attr]
    wait_until(lambda: where in steps.unheard_losses(), WAIT_S)
    with member(bootstrap, group, topic) as second:
        read(second, 100)
        second.commit()
    assert committed(admin, group, where) == 100


def test_i22_what_was_read_before_a_loss_is_not_committed_by_who_has_not_heard_of_it(
    bootstrap: str, admin: Admin, make_filled_topic: MakeTopic, group: str
) -> None:
    topic = make_filled_topic(records=100)
    with member(bootstrap, group, topic, max_poll_interval_ms=1_000) as first:
        records = first.poll(WAIT_S, max_records=1)
        lose_it_to_another(bootstrap, admin, group, topic, first)
        with pytest.raises(IllegalGeneration, match="not this member's; nothing was committed"):
            first.commit(records[0])
        with pytest.raises(IllegalGeneration, match="was lost, and may be another member's"):
            first.seek(TopicPartition(topic, 0), 5)
        assert committed(admin, group, TopicPartition(topic, 0)) == 100
        first.poll(0.2)  # now it has heard
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"new", partition=0).result(WAIT_S)
        assert read(first, 1) == [100]


def test_who_asks_for_a_commit_gets_one_whatever_was_committed_before(
    bootstrap: str, admin: Admin, make_filled_topic: MakeTopic, group: str
) -> None:
    topic = make_filled_topic(records=10)
    where = TopicPartition(topic, 0)
    with member(bootstrap, group, None) as consumer:
        consumer.assign([where])
        read(consumer, 10)
        consumer.commit()
        admin.alter_group_offsets(group, {where: 3})
        consumer.commit()
        assert committed(admin, group, where) == 10
        admin.delete_group(group)
        consumer.commit()
        assert committed(admin, group, where) == 10


def test_an_offset_of_a_topic_that_was_made_anew_is_not_taken_for_one_of_the_new(
    bootstrap: str, admin: Admin, make_filled_topic: MakeTopic, group: str
) -> None:
    topic = make_filled_topic(records=100)
    where = TopicPartition(topic, 0)
    with member(bootstrap, group, topic, metadata_max_age_ms=600_000) as consumer:
        read(consumer, 100)
        consumer.pause(where)  # or its next fetch tells it that the topic is a new one, and then it may commit
        admin.delete_topic(topic)
        admin.create_topic(topic)
        with pytest.raises(InconsistentTopicId, match="was made anew since that was read"):
            consumer.commit({where: 100})
    assert committed(admin, group, where) is None


def test_a_member_too_many_is_refused_and_the_others_go_on(
    bootstrap: str, make_filled_topic: MakeTopic, group: str
) -> None:
    """What members tell of themselves must fit into the group's znode."""
    topic = make_filled_topic(records=10, partitions=20)
    many = [topic, *(f"{'x' * 200}-{number}" for number in range(250))]
    consumers: list[Consumer] = []
    try:
        refused = False
        while not refused:
            assert len(consumers) < 20, "nobody was refused"
            consumer = member(bootstrap, group, None, partition_assignment_strategy="range")
            consumers.append(consumer)
            consumer.subscribe(many)
            refused = settles(consumers)
        last = consumers.pop()
        last.close()
        assert not settles(consumers), "the others are members as before"
    finally:
        for consumer in consumers:
            consumer.close()


def settles(consumers: list[Consumer]) -> bool:
    """Wait until each reads something; whether the last one was refused."""
    deadline = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            try:
                consumer.poll(0.05)
            except GroupMaxSizeReached:
                assert consumer is consumers[-1], "only who is new is refused"
                return True
        if all(consumer.assignment() for consumer in consumers):
            return False
