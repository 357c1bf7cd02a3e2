"""Handlers of offsets whose requests meet others while they are handled."""

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api import slices
from ottla.broker.api.dispatch import ApiHandler
from ottla.broker.api.group_offsets import GroupOffsetHandlers
from ottla.broker.api.offset_delete import OffsetDeleteHandler
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.new_groups import NewGroups
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, encode_subscription
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupSubscribedToTopic, NotCoordinator, OttlaError
from ottla.wire.groups import (
    OffsetCommitPart,
    OffsetCommitRequest,
    OffsetDeletePartResult,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from ottla.wire.messages import PartitionName, Request
from ottla.wire.names import TopicPartition
from ottla.zk.groups import Committed, GroupWrite, LoadedGroup
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import GroupZnode, MemberRecord

PARTITIONS = 5


class OneGroup:
    """The groups of a broker that coordinates one; what is written of its offsets is noted."""

    def __init__(self) -> None:
        self.limits = GroupLimits()
        self.record = GroupZnode()
        group = SimpleNamespace(
            group_id="g", state="Stable", record=lambda: self.record, check_commit=lambda *args: None
        )
        offsets = {TopicPartition(topic, number): Committed(1) for topic in "tu" for number in range(PARTITIONS)}
        self.coordinated = Coordinated(cast(Any, group), LoadedGroup("g", self.record, 0, 0, offsets))
        self.committed: list[tuple[TopicPartition, int]] = []
        self.deleted: list[TopicPartition] = []
        self.writes: list[str] = []

    async def get(self, group_id: str, *, make: bool = True) -> Coordinated:
        return self.coordinated

    def commit(
        self, coordinated: Coordinated, fill: Callable[[GroupWrite], None], done: Callable[[OttlaError | None], None]
    ) -> None:
        write = SimpleNamespace(
            commit=lambda where, committed: self.committed.append((where, committed.offset)), forget=self.deleted.append
        )
        commits = len(self.committed)
        fill(cast(GroupWrite, write))
        self.writes.append("commit" if len(self.committed) > commits else "delete")
        done(None)

    def subscribe(self, *topics: str) -> None:
        metadata = encode_subscription(Subscription(topics))
        member = MemberRecord("m", None, "c", "h", 10_000, 10_000, (("range", metadata),), b"")
        self.record = GroupZnode(1, PROTOCOL_TYPE, "range", "m", members=(member,))


class View:
    def topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id=f"id-of-{name}", partitions=range(PARTITIONS))

    def topic_id_of(self, name: str) -> str:
        return f"id-of-{name}"


@pytest.fixture
def groups() -> OneGroup:
    return OneGroup()


@pytest.fixture
def commit(groups: OneGroup) -> ApiHandler:
    view, session = cast(ClusterView, View()), cast(ZkSession, None)
    return GroupOffsetHandlers(cast(Groups, groups), view, session, NewGroups()).commit


@pytest.fixture
def delete(groups: OneGroup) -> ApiHandler:
    return OffsetDeleteHandler(cast(Groups, groups), cast(ClusterView, View()))


@pytest.fixture(autouse=True)
def rest_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may rest does."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)


def ask(handler: ApiHandler, message: Request, *, is_long: bool) -> asyncio.Future[Reply]:
    incoming = cast(IncomingRequest, SimpleNamespace(message=message, client_id="c", is_long=is_long))
    answer = handler(incoming, cast(Peer, "connection"))
    assert isinstance(answer, asyncio.Future)
    return answer


def deletion(topics: Iterable[str]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest("g", [PartitionName(topic, number) for topic in topics for number in range(PARTITIONS)])


def commit_of(partitions: Iterable[int], offset: int) -> OffsetCommitRequest:
    parts = [OffsetCommitPart("t", number, offset) for number in partitions]
    return OffsetCommitRequest("g", -1, "", None, parts)


def results_of(reply: Reply) -> tuple[OffsetDeletePartResult, ...]:
    assert isinstance(reply.message, OffsetDeleteResponse)
    return reply.message.parts


async def test_no_offset_is_deleted_of_a_topic_that_a_member_subscribes_to_meanwhile(
    groups: OneGroup, delete: ApiHandler
) -> None:
    answer = ask(delete, deletion("tut"), is_long=True)
    for _ in range(PARTITIONS):
        await asyncio.sleep(0)
    assert not answer.done()
    groups.subscribe("t")
    results = results_of(await answer)
    assert [(one.topic, one.partition) for one in results] == [(topic, n) for topic in "tut" for n in range(PARTITIONS)]
    assert {(one.topic, one.error_code) for one in results} == {("t", GroupSubscribedToTopic.code), ("u", 0)}
    assert groups.deleted == [TopicPartition("u", number) for number in range(PARTITIONS)]


async def test_no_offset_is_deleted_of_a_topic_subscribed_to_while_others_are_refused(
    groups: OneGroup, delete: ApiHandler
) -> None:
    answer = ask(delete, deletion("tu"), is_long=True)
    await asyncio.sleep(0)
    groups.subscribe("t")
    for _ in range(2 * PARTITIONS + 1):
        await asyncio.sleep(0)
    assert not answer.done()
    groups.subscribe("u")
    results = results_of(await answer)
    assert {one.error_code for one in results} == {GroupSubscribedToTopic.code}
    assert groups.deleted == []


async def test_no_offset_is_deleted_of_a_group_that_got_another_coordinator_meanwhile(
    groups: OneGroup, delete: ApiHandler
) -> None:
    answer = ask(delete, deletion("tu"), is_long=True)
    await asyncio.sleep(0)
    groups.coordinated.over = True
    with pytest.raises(NotCoordinator):
        await answer
    assert groups.deleted == []


async def test_a_short_commit_is_not_overtaken_by_the_next_one_of_its_connection(
    groups: OneGroup, commit: ApiHandler
) -> None:
    older = ask(commit, commit_of(range(PARTITIONS), 7), is_long=False)
    newer = ask(commit, commit_of([0], 8), is_long=False)
    await asyncio.gather(older, newer)
    assert [offset for where, offset in groups.committed if where == TopicPartition("t", 0)] == [7, 8]


async def test_a_short_deletion_of_offsets_is_not_overtaken_by_a_commit(
    groups: OneGroup, commit: ApiHandler, delete: ApiHandler
) -> None:
    deleted = ask(delete, deletion("t"), is_long=False)
    committed = ask(commit, commit_of([0], 8), is_long=False)
    await asyncio.gather(deleted, committed)
    assert groups.writes == ["delete", "commit"]
