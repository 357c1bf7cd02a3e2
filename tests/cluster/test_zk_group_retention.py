"""Groups on a live ZooKeeper: the topic of a commit that waits, when offsets expire, a deletion right after a leave."""

import asyncio
import time
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.broker.api.group_offsets import GroupOffsetHandlers
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.membership import Client
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.groups.retention_loop import GroupRetention
from ottla.net.reply import Later
from ottla.wire.errors import OttlaError
from ottla.wire.groups import GroupProtocol, JoinGroupRequest, LeavingMember, OffsetCommitPart, OffsetCommitRequest
from ottla.wire.names import TopicPartition
from ottla.zk.groups import Committed, load_group
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.operations import Operation, OperationResult
from ottla.zk.session.session import ZkSession
from tests.conftest import OpenSession
from tests.support.clocks import wall_ms
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster

T0 = TopicPartition("t", 0)
RETENTION_S = 60.0


def make_groups(session: ZkSession) -> Groups:
    view = cast(ClusterView, SimpleNamespace(known=True, brokers={1}, on_group_settings=[]))
    return Groups(session, 1, view, GroupLimits(retention_ms=int(RETENTION_S * 1000)), lambda: False, wall_ms)


class SlowMulti:
    """Holds every multi back until it is told to go on."""

    def __init__(self, session: ZkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = 0
        self.go_on = asyncio.Event()
        self._multi = session.multi
        monkeypatch.setattr(session, "multi", self)

    async def __call__(self, operations: list[Operation]) -> list[OperationResult]:
        self.held += 1
        await self.go_on.wait()
        return await self._multi(operations)


async def test_commit_that_waits_is_of_the_topic_that_it_was_checked_for(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: it was stamped with the id of the topic that was made anew meanwhile, whose first records were skipped."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    topic = SimpleNamespace(partitions=range(1), topic_id="old")
    view = cast(ClusterView, SimpleNamespace(topic=lambda name: topic, topic_id_of=lambda name: topic.topic_id))
    groups = make_groups(session)
    handlers = GroupOffsetHandlers(groups, view, session, NewGroups())
    await groups.get("g")
    slow = SlowMulti(session, monkeypatch)

    def commit(offset: int) -> "asyncio.Task[object]":
        request = OffsetCommitRequest("g", -1, "", None, [OffsetCommitPart("t", 0, offset)])
        return asyncio.create_task(handlers._commit(request, NewGroups().of("c"), Slices()))

    first = commit(1)
    await eventually(lambda: slow.held == 1)
    second = commit(2)  # waits for the first
    await eventually(lambda: len(groups._writes._queue) == 1)
    topic.topic_id = "new"
    slow.go_on.set()
    await asyncio.gather(first, second)
    found = await load_group(session, "g")
    assert found is not None
    assert (found.offsets[T0].offset, found.offsets[T0].commit.topic_id) == (2, "old")
    await groups.stop()


@pytest.mark.parametrize("moves", [False, True])
async def test_offsets_are_kept_for_the_whole_retention_after_the_last_commit(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    """Before: from the last commit that had been noted in the group's znode, up to a quarter of the retention earlier."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    began = time.time()
    passed_s = 0.0
    monkeypatch.setattr(time, "time", lambda: began + passed_s)
    groups = make_groups(session)
    one = await groups.get("g")
    passed_s = 14.0  # not noted: a minute's retention is noted every 15 seconds
    written: asyncio.Future[OttlaError | None] = asyncio.get_running_loop().create_future()
    groups.commit(one, lambda write: write.commit(T0, Committed(5)), written.set_result)
    assert await written is None
    if moves:  # another coordinator does not know of the last commit
        await groups.stop()
        groups = make_groups(session)
    passed_s = 14.0 + RETENTION_S - 1
    await GroupRetention(groups, wall_ms).forget_old()
    found = await load_group(session, "g", make=False)
    assert found is not None
    assert found.offsets[T0].offset == 5
    passed_s = 16.0 + RETENTION_S
    await GroupRetention(groups, wall_ms).forget_old()
    assert await load_group(session, "g", make=False) is None
    await groups.stop()


async def test_group_is_deleted_though_its_last_member_left_a_moment_ago(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: NOT_COORDINATOR, because the deletion did not wait for the group's own write."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = make_groups(session)
    one = await groups.get("g")
    request = JoinGroupRequest("g", 10_000, 10_000, "", "i", "consumer", [GroupProtocol("range", b"")])
    groups.apply(one, groups.classic(one).join(Later(), request, Client("c", "h"), time.monotonic()))
    await eventually(lambda: not one.writing)
    (member,) = groups.classic(one).members
    slow = SlowMulti(session, monkeypatch)
    _, effects = groups.classic(one).leave([LeavingMember(member.member_id, "i")], time.monotonic())
    groups.apply(one, effects)
    deletion = asyncio.create_task(groups.delete("g"))
    await eventually(lambda: slow.held == 1)
    slow.go_on.set()
    await deletion
    assert await load_group(session, "g", make=False) is None
    await groups.stop()
