"""A partition has one owner at a time, also while a member changes its subscription."""

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.client import Consumer, TopicPartition
from ottla.client.groups.assignors import ASSIGNORS, Assignments, assign_cooperatively
from ottla.wire.consumer_protocol import Subscription
from tests.support.client_topics import MakeTopic
from tests.support.cluster import wait_until

pytestmark = pytest.mark.cluster

STOLEN_S = 1.0
"""How long a member that gives a partition up looks whether another member owns it already."""


class Listener:
    """Calls back with the partitions that are assigned and revoked."""

    def __init__(self, assigned: Callable[[set[TopicPartition]], None], revoked: Callable[[set[TopicPartition]], None]):
        self.on_partitions_assigned = assigned
        self.on_partitions_revoked = revoked


def make_consumer(bootstrap: str, group: str, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        heartbeat_interval_ms=200, **options,
    )  # fmt: skip


def assign_as_kafka(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """A leader that does not count claims of partitions of topics that their owner does not subscribe to any more."""
    trusting = {
        member: one._replace(owned=tuple(where for where in one.owned if where.topic in one.topics))
        for member, one in members.items()
    }
    return assign_cooperatively(partitions, trusting)


@pytest.mark.parametrize("assign", [assign_cooperatively, assign_as_kafka])
def test_member_that_narrows_its_subscription_revokes_before_another_member_owns(
    bootstrap: str,
    make_topic: MakeTopic,
    make_filled_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    assign: Callable[[Mapping[str, int], Mapping[str, Subscription]], Assignments],
) -> None:
    """Before: both owned the partition in one generation, and the old owner's commit of 3 undid the new owner's of 10."""
    monkeypatch.setitem(ASSIGNORS, "cooperative-sticky", ASSIGNORS["cooperative-sticky"]._replace(assign=assign))
    kept, others, given_up = make_topic(), make_topic(), make_filled_topic(records=10)
    where, group = TopicPartition(given_up, 0), f"group-{uuid.uuid4().hex[:8]}"
    events: list[str] = []
    is_owned_by_second, has_committed, ended = threading.Event(), threading.Event(), threading.Event()

    with make_consumer(bootstrap, group) as first, make_consumer(bootstrap, group) as second:

        def first_gives_up(partitions: set[TopicPartition]) -> None:
            if where not in partitions:
                return  # it is closed
            if is_owned_by_second.wait(STOLEN_S):
                has_committed.wait(10)
            first.commit({where: 3})
            events.append(f"first revoked {len(partitions)}")

        def second_gets(partitions: set[TopicPartition]) -> None:
            if where in partitions:
                events.append("second assigned")
                is_owned_by_second.set()

        def second_reads() -> None:
            while not ended.is_set():
                if any(record.offset == 9 for record in second.poll(0.05)):
                    second.commit({where: 10})
                    has_committed.set()

        listener = Listener(lambda _: None, first_gives_up)
        first.subscribe([kept, given_up], listener=listener)
        wait_until(lambda: bool(first.poll(0.05)) and where in first.assignment())
        second.subscribe([others, given_up], listener=Listener(second_gets, lambda _: None))
        reading = threading.Thread(target=second_reads)
        reading.start()
        try:
            wait_until(lambda: first.poll(0.05) is not None and second.assignment() == {TopicPartition(others, 0)})
            first.subscribe([kept], listener=listener)
            wait_until(lambda: first.poll(0.05) is not None and has_committed.is_set() and len(events) == 2)
        finally:
            ended.set()
            reading.join()
        assert events == ["first revoked 1", "second assigned"]
        assert second.committed([where])[where].offset == 10  # type: ignore[union-attr]
        assert first.assignment() == {TopicPartition(kept, 0)}
