"""Groups whose coordinator assigns, in a live ZooKeeper: what the next coordinator finds, and what the last can do."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.consumer_groups import ConsumerGroupHandlers
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.membership import Client, Group
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.groups.retention_loop import GroupRetention
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import GroupMaxSizeReached, InvalidRegularExpression, NotCoordinator
from ottla.wire.names import TopicPartition
from ottla.zk.groups import Committed, load_group
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.operations import Operation, OperationResult
from ottla.zk.session.session import ZkSession
from tests.conftest import OpenSession
from tests.support.clocks import wall_ms
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

ALL = (TopicPartitions("id", (0, 1, 2, 3)),)
HALF = (TopicPartitions("id", (0, 1)),)


class KnownTopics(SimpleNamespace):
    """A cluster of one broker with a topic t of four partitions."""

    def __init__(self) -> None:
        super().__init__(known=True, brokers={1}, count=4, group_settings={}, on_group_settings=[])

    def topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id="id", partitions=range(self.count)) if name == "t" else None

    def topic_names(self) -> list[str]:
        return ["t"]


def coordinator(session: ZkSession, topics: KnownTopics | None = None, **limits: int) -> Groups:
    return Groups(session, 1, cast(ClusterView, topics or KnownTopics()), GroupLimits(**limits), lambda: False, wall_ms)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(scaled(10)):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def send(groups: Groups, one: Coordinated, member: str, epoch: int, **more: Any) -> Later:
    wait = Later()
    if epoch == 0:
        more = {"rebalance_timeout_ms": 60_000, "topics": ("t",), "owned": (), **more}
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, **more)
    groups.apply(one, groups.consumer(one).heartbeat(wait, request, Client("c", "h"), time.monotonic()))
    return wait


async def beat(groups: Groups, member: str, epoch: int, **more: Any) -> Reply:
    wait = send(groups, await groups.get("g"), member, epoch, **more)
    await until(lambda: wait.reply is not None)
    assert wait.reply is not None
    return wait.reply


async def told(groups: Groups, member: str, epoch: int, **more: Any) -> tuple[int, Any]:
    message = (await beat(groups, member, epoch, **more)).message
    assert isinstance(message, ConsumerGroupHeartbeatResponse)
    message.raise_if_failed()
    return message.member_epoch, message.assignment


async def test_i30_the_next_coordinator_waits_for_who_the_last_one_has_told_to_let_go(
    open_session: OpenSession, zk_connect: str
) -> None:
    sessions = [await open_session(zk_connect) for _ in range(2)]
    await ensure_persistent_paths(sessions[0])
    first, second = (coordinator(session) for session in sessions)
    assert await told(first, "m", 0) == (1, ALL)
    assert await told(first, "n", 0) == (2, ())
    assert await told(first, "m", 1) == (1, HALF)
    assert await told(second, "n", 2) == (2, None), "m has not let go"
    found = await load_group(sessions[1], "g", make=False)
    assert found is not None
    assert set(found.owners.values()) == {"m"}
    assert found.members == {"m", "n"}
    assert await told(second, "m", 1, owned=HALF) == (2, None)
    assert await told(second, "n", 2) == (2, (TopicPartitions("id", (2, 3)),))
    owners = {TopicPartition("t", number): "m" if number < 2 else "n" for number in range(4)}
    found = await load_group(sessions[1], "g", make=False)
    assert found is not None
    assert found.owners == owners
    for groups in (first, second):
        await groups.stop()


async def test_i22_a_coordinator_that_was_replaced_gives_nobody_a_partition(
    open_session: OpenSession, zk_connect: str
) -> None:
    sessions = [await open_session(zk_connect) for _ in range(2)]
    await ensure_persistent_paths(sessions[0])
    first, second = (coordinator(session) for session in sessions)
    assert await told(first, "m", 0) == (1, ALL)
    old = await first.get("g")
    assert await told(second, "n", 0) == (2, ())
    refused = await beat(first, "m", -1)
    assert isinstance(refused.error, NotCoordinator)
    assert old.over
    record = (await second.get("g")).group.record()
    assert [member.member_id for member in record.consumers] == ["m", "n"]
    for groups in (first, second):
        await groups.stop()


async def test_a_heartbeat_that_changes_nothing_is_not_written(open_session: OpenSession, zk_connect: str) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    await told(groups, "m", 0)
    multis = groups._writes.multis
    for _ in range(10):
        assert await told(groups, "m", 1) == (1, None)
    assert await told(groups, "m", 1, owned=ALL) == (1, None)
    assert groups._writes.multis == multis
    await groups.stop()


async def test_steps_that_come_together_are_one_write_but_none_overtakes_a_commit(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    await told(groups, "m", 0)
    one = await groups.get("g")
    multis, version = groups._writes.multis, one.loaded.version
    joined = [asyncio.ensure_future(told(groups, f"n{number}", 0)) for number in range(50)]
    assert [epoch for epoch, _ in await asyncio.gather(*joined)] == list(range(2, 52))
    assert groups._writes.multis - multis <= 3
    assert one.loaded.version - version <= 3
    order: list[str] = []
    commit = TopicPartition("t", 0), Committed(7)
    send(groups, one, "n0", -1).on_given = lambda: order.append("n0 left")
    send(groups, one, "n1", -1).on_given = lambda: order.append("n1 left")
    groups.commit(one, lambda write: write.commit(*commit), lambda error: order.append("committed"))
    send(groups, one, "n2", -1).on_given = lambda: order.append("n2 left")
    await until(lambda: len(order) == 4)
    assert order == ["n0 left", "n1 left", "committed", "n2 left"]
    found = await load_group(session, "g", make=False)
    assert found is not None
    assert found.members == {"m", *(f"n{number}" for number in range(3, 50))}
    assert found.offsets[TopicPartition("t", 0)].offset == 7
    await groups.stop()


async def test_topics_that_grow_and_members_that_fall_silent_are_noticed_by_the_loop(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    topics = KnownTopics()
    groups = coordinator(session, topics, consumer_session_timeout_ms=1000)
    assert await told(groups, "m", 0) == (1, ALL)
    topics.count = 6
    groups.cluster_changed()
    one = await groups.get("g")
    await until(lambda: one.group.generation == 2)
    assert await told(groups, "m", 1) == (2, (TopicPartitions("id", tuple(range(6))),))
    await until(lambda: not one.loaded.znode.consumers)
    await groups.delete("g")
    assert await load_group(session, "g", make=False) is None
    await groups.stop()


async def test_a_group_that_does_not_fit_into_a_znode_is_as_it_was(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    await told(groups, "m", 0)
    monkeypatch.setattr("ottla.broker.groups.groups_loop.RECORD_MAX", 800)
    refused = await beat(groups, "n" * 1000, 0)
    assert isinstance(refused.error, GroupMaxSizeReached)
    assert await told(groups, "m", 1) == (1, None)
    group = (await groups.get("g")).group
    assert isinstance(group, ConsumerGroup)
    assert len(group.members) == 1
    await groups.stop()


async def test_a_group_with_a_long_name_has_its_many_partitions_though_not_all_owners_can_be_shown_at_once(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    topics = KnownTopics()
    topics.count = 2000
    groups = coordinator(session, topics)
    name = "群" * 255  # nine letters of a path each
    everything = (TopicPartitions("id", tuple(range(2000))),)
    wait = send(groups, await groups.get(name), "m", 0)
    await until(lambda: wait.reply is not None)
    assert wait.reply is not None
    assert wait.reply.error is None
    assert isinstance(wait.reply.message, ConsumerGroupHeartbeatResponse)
    assert wait.reply.message.assignment == everything
    found = await load_group(session, name, make=False)
    assert found is not None
    assert 0 < len(found.owners) < 2000
    one = await groups.get(name)
    assert one.loaded.owners == found.owners
    left = send(groups, one, "m", -1)
    await until(lambda: left.reply is not None)
    found = await load_group(session, name, make=False)
    assert found is not None
    assert (found.owners, found.members) == ({}, set())
    await groups.stop()


async def test_who_is_not_let_in_does_not_change_the_kind_of_an_empty_group(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    handlers = ConsumerGroupHandlers(groups, NewGroups())
    one = await groups.get("g")
    assert isinstance(one.group, Group)
    wrong = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1, topics=(), pattern="(", owned=()
    )  # fmt: skip
    peer = cast(Peer, SimpleNamespace(ip="h"))
    wait = handlers.heartbeat(cast(IncomingRequest, SimpleNamespace(message=wrong, client_id="c")), peer)
    assert wait.reply is not None
    assert isinstance(wait.reply.message, ConsumerGroupHeartbeatResponse)
    assert wait.reply.message.error_code == InvalidRegularExpression.code
    assert isinstance(one.group, Group), "an admin client would be told that there is no such classic group"
    await groups.stop()


class ManyTopics(KnownTopics):
    def topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id=f"id-{name}", partitions=range(self.count))

    def topic_names(self) -> list[str]:
        return [f"t{number:03d}" for number in range(self.many)]


async def test_a_group_whose_pattern_matches_more_than_fits_into_a_znode_goes_on_with_the_topics_that_it_has(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    topics = ManyTopics()
    topics.many = 1
    groups = coordinator(session, topics)
    wants: dict[str, Any] = {"topics": (), "pattern": "t.*"}
    everything = (TopicPartitions("id-t000", (0, 1, 2, 3)),)
    assert await told(groups, "m", 0, **wants) == (1, everything)
    monkeypatch.setattr("ottla.broker.groups.groups_loop.RECORD_MAX", 2000)
    before = await groups.get("g")
    topics.many = 100
    groups.cluster_changed()
    await until(lambda: before.over)
    assert await told(groups, "m", 1) == (1, None)
    assert await told(groups, "n", 0, **wants) == (2, ())
    assert await told(groups, "m", -1) == (-1, None)
    assert await told(groups, "n", 2) == (3, everything)
    monkeypatch.undo()
    await groups.stop()
    groups = coordinator(session, topics)
    epoch, assigned = await told(groups, "n", 3)
    assert (epoch, len(assigned)) == (4, 100), "the next coordinator looks again"
    await groups.stop()


async def test_a_group_whose_last_member_has_just_left_is_not_forgotten_however_long_ago_it_was_written(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats that change nothing write nothing: what stands there may be a week old."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session, retention_ms=60_000)
    await told(groups, "m", 0)
    one = await groups.get("g")
    one.loaded.znode = replace(one.loaded.znode, touched_ms=1)
    slow, multi = asyncio.Event(), session.multi

    async def wait_and_write(operations: list[Operation]) -> list[OperationResult]:
        monkeypatch.undo()
        await slow.wait()
        return await multi(operations)

    monkeypatch.setattr(session, "multi", wait_and_write)
    left = send(groups, one, "m", -1)
    await GroupRetention(groups, wall_ms).forget_old()
    slow.set()
    await until(lambda: left.reply is not None)
    assert left.reply is not None
    assert left.reply.error is None
    assert await load_group(session, "g", make=False) is not None, "its offsets are gone"
    await groups.stop()


async def test_a_member_that_could_not_be_heard_is_not_held_to_be_silent(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    cut_off = False
    view = cast(ClusterView, KnownTopics())
    groups = Groups(session, 1, view, GroupLimits(consumer_session_timeout_ms=300), lambda: cut_off, wall_ms)
    assert await told(groups, "m", 0) == (1, ALL)
    one = await groups.get("g")
    cut_off = True  # its heartbeats are refused from now on
    with pytest.raises(NotCoordinator):
        groups.loaded("g")
    await until(lambda: one.over or not one.group.members)
    cut_off = False
    assert await told(groups, "m", 1) == (1, None)
    await groups.stop()
