"""Writes about groups on a live ZooKeeper: many in one multi, none of a coordinator that was replaced, none lost in silence."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.broker.api.group_offsets import GroupOffsetHandlers
from ottla.broker.api.offset_delete import OffsetDeleteHandler
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.membership import Client
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.groups.retention_loop import GroupRetention
from ottla.broker.groups.writes_loop import GroupWrites, PendingWrite, _Part
from ottla.net.reply import Later
from ottla.wire.errors import NotCoordinator, OttlaError, RequestTimedOut
from ottla.wire.groups import (
    GroupProtocol,
    JoinGroupRequest,
    MemberAssignment,
    OffsetCommitPart,
    OffsetCommitPartResult,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    SyncGroupRequest,
)
from ottla.wire.messages import PartitionName
from ottla.wire.names import TopicPartition
from ottla.zk.errors import ConnectionLost, MultiFailed
from ottla.zk.groups import Committed, GroupWrite, LoadedGroup, delete_group, find_group, load_group, take_over
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.operations import Check, Delete, Operation, OperationResult
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import CommitZnode, GroupZnode
from tests.conftest import OpenSession
from tests.support.clocks import wall_ms
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster

T0 = TopicPartition("t", 0)


async def load(session: ZkSession, group: str = "g") -> LoadedGroup:
    """As a coordinator does when it takes a group over."""
    await ensure_persistent_paths(session)
    loaded = await load_group(session, group)
    assert loaded is not None
    await take_over(session, loaded, 1, 7)
    return loaded


def put(
    writes: GroupWrites, loaded: LoadedGroup, offset: int, record: GroupZnode | None = None
) -> asyncio.Future[None]:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: OttlaError | None) -> None:
        assert not written.done(), "told twice"
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)

    def fill(write: GroupWrite) -> None:
        write.commit(T0, Committed(offset, CommitZnode(1, f"at {offset}")))

    writes.put(PendingWrite(loaded, fill, done, record))
    return written


async def offset_of(session: ZkSession, group: str = "g") -> int:
    found = await load_group(session, group, make=False)
    assert found is not None
    return found.offsets[T0].offset


async def test_what_is_put_while_one_is_written_shares_the_next_multi(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    groups = [await load(session, f"g{number}") for number in range(50)]
    writes = GroupWrites(session)
    await asyncio.gather(*(put(writes, loaded, offset) for offset in (1, 2, 3) for loaded in groups))
    assert writes.multis <= 3
    assert {await offset_of(session, loaded.group) for loaded in groups} == {3}


async def replaced_coordinator_writes(session: ZkSession, other: ZkSession) -> tuple[bool, int]:
    """Whether the first of two coordinators is told that its commit stands, and what stands then."""
    old = await load(session)
    writes = GroupWrites(session)
    await put(writes, old, 5)
    new = await load(other)
    await put(GroupWrites(other), new, 9)
    try:
        await put(writes, old, 6)
    except NotCoordinator:
        return False, await offset_of(session)
    return True, await offset_of(session)


async def test_i22_a_coordinator_that_was_replaced_writes_nothing(open_session: OpenSession, zk_connect: str) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    assert await replaced_coordinator_writes(session, other) == (False, 9)


async def test_i22_without_the_check_it_would(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    monkeypatch.setattr(_Part, "fence", property(lambda part: [Check(GroupZnode.path("g"), -1)] * 2))
    assert await replaced_coordinator_writes(session, other) == (True, 6)


async def coordinator_of_a_deleted_group_writes(session: ZkSession, other: ZkSession) -> tuple[bool, int]:
    """The group was deleted and made anew since, and its znode has come to the version that the first coordinator knows."""
    old = await load(session)
    writes, others = GroupWrites(session), GroupWrites(other)
    for offset in range(4):
        await put(writes, old, offset, replace(old.znode, generation=offset))
    await delete_group(other, await load(other))
    new = await load(other)
    while new.version < old.version:
        await put(others, new, 9, replace(new.znode, generation=new.version))
    await put(others, new, 9)
    assert new.version == old.version
    try:
        await put(writes, old, 6)
    except NotCoordinator:
        return False, await offset_of(session)
    return True, await offset_of(session)


async def test_i22_a_coordinator_of_a_group_that_was_deleted_writes_nothing_into_the_next_of_that_name(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    assert await coordinator_of_a_deleted_group_writes(session, other) == (False, 9)


async def test_i22_by_versions_alone_it_would(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    fence = LoadedGroup.fence

    def of_versions(loaded: LoadedGroup, record: GroupZnode | None = None) -> list[Operation]:
        return [fence(loaded, record)[0], Check("/consumers", -1)]

    monkeypatch.setattr(LoadedGroup, "fence", of_versions)
    assert await coordinator_of_a_deleted_group_writes(session, other) == (True, 6)


async def test_i22_a_coordinator_of_a_group_that_was_deleted_tells_no_offsets_of_it(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    one = await groups.get("g")
    await commit(groups, one, 5)
    handlers = offsets_of(groups, session)
    await handlers._check_still_mine(one)
    await delete_group(other, await load(other))
    await load(other)
    with pytest.raises(NotCoordinator):
        await handlers._check_still_mine(one)
    await groups.stop()


@pytest.mark.parametrize("when", ["before it began", "while it was under way"])
async def test_group_is_deleted_by_its_coordinator_only_and_wholly(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    old = await load(session)
    await put(GroupWrites(session), old, 5)
    if when == "before it began":
        await load(other)
    else:
        multi: Callable[..., Awaitable[list[OperationResult]]] = session.multi

        async def slow(operations: list[Operation]) -> list[OperationResult]:
            done = await multi(operations)
            monkeypatch.setattr(session, "multi", multi)
            await load(other)
            return done

        monkeypatch.setattr(session, "multi", slow)
    with pytest.raises(MultiFailed):
        await delete_group(session, old)
    new = await load(other)
    await put(GroupWrites(other), new, 7)
    assert await offset_of(other) == 7
    await delete_group(other, new)
    assert await session.children("/consumers") == []


async def test_group_that_was_made_by_hand_gets_a_life_when_it_is_taken_over(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    for path in ("g", "g/offsets", "g/offsets/t"):
        await session.create(f"/consumers/{path}")
    await session.create("/consumers/g/offsets/t/0", b"42")
    first = await load(session)
    assert (first.offsets[T0].offset, len(first.znode.life)) == (42, 32)
    second = await load(session)
    assert second.znode.life == first.znode.life
    with pytest.raises(NotCoordinator):
        await put(GroupWrites(session), first, 43)


async def test_a_group_that_was_taken_over_does_not_keep_others_from_being_written(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    groups = [await load(session, name) for name in ("a", "b", "c")]
    await load(other, "b")
    writes = GroupWrites(session)
    results = await asyncio.gather(*(put(writes, loaded, 1) for loaded in groups), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), NotCoordinator, type(None)]


async def test_znodes_that_others_made_or_deleted_are_read_again(open_session: OpenSession, zk_connect: str) -> None:
    session = await open_session(zk_connect)
    loaded = await load(session)
    await session.create("/consumers/g/offsets/t/0", b"77", make_parents=True)
    writes = GroupWrites(session)
    await put(writes, loaded, 1)
    assert await offset_of(session) == 1
    await session.delete("/consumers/g/offsets/t/0", -1)
    await put(writes, loaded, 2)
    assert await offset_of(session) == 2


@pytest.mark.parametrize("path", ["/consumers/g/offsets/t/0", "/consumers/g/commits/t/0"])
async def test_what_was_written_by_hand_and_is_no_offset_is_written_over(
    open_session: OpenSession, zk_connect: str, path: str
) -> None:
    session = await open_session(zk_connect)
    await load(session)
    await session.create("/consumers/g/offsets/t", b"", make_parents=True)
    await session.create("/consumers/g/commits/t", b"", make_parents=True)
    await session.create("/consumers/g/offsets/t/0", b"7")
    await session.create("/consumers/g/commits/t/0", CommitZnode(1, "x").encode())
    await session.set(path, b"garbage", -1)
    loaded = await load(session)
    assert loaded.offsets == {}
    writes = GroupWrites(session)
    await asyncio.wait_for(put(writes, loaded, 1), 2)
    await asyncio.wait_for(put(writes, loaded, 2), 2)
    assert await offset_of(session) == 2


async def test_offsets_are_forgotten_and_committed_in_one_multi(open_session: OpenSession, zk_connect: str) -> None:
    session = await open_session(zk_connect)
    loaded = await load(session)
    writes = GroupWrites(session)
    await put(writes, loaded, 1)
    results: list[OttlaError | None] = []
    for _ in range(2):
        writes.put(PendingWrite(loaded, lambda write: write.forget(T0), results.append))
    await asyncio.wait_for(put(writes, loaded, 5), 2)
    assert (results, writes.multis, await offset_of(session)) == ([None, None], 2, 5)
    writes.put(PendingWrite(loaded, lambda write: write.forget(T0), results.append))
    await asyncio.wait_for(put(writes, loaded, 6), 2)
    assert await offset_of(session) == 6
    assert (await load(session)).offsets[T0].commit.metadata == "at 6"


async def test_what_does_not_fit_to_zookeeper_or_into_a_multi_keeps_nobody_else_from_being_written(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    groups = [await load(session, name) for name in ("a", "b", "c")]
    writes = GroupWrites(session)
    results: list[OttlaError | None] = []

    def too_much(write: GroupWrite) -> None:
        write.commit(T0, Committed(1, CommitZnode(1, "x" * 1_100_000)))

    def impossible(write: GroupWrite) -> None:
        write.operations.append(Delete("/consumers/b/nothing", -1))

    good = [put(writes, groups[0], 1)]
    writes.put(PendingWrite(groups[1], impossible, results.append))
    good.append(put(writes, groups[2], 1))
    writes.put(PendingWrite(groups[1], too_much, results.append))
    good.append(put(writes, groups[0], 2))
    await asyncio.wait_for(asyncio.gather(*good), 3)
    await asyncio.wait_for(put(writes, groups[1], 3), 3)
    assert sorted(type(result).__name__ for result in results) == ["InvalidRequest", "UnknownServerError"]


def coordinator(session: ZkSession, **limits: int) -> Groups:
    view = cast(ClusterView, SimpleNamespace(known=True, brokers={1}, on_group_settings=[]))
    return Groups(session, 1, view, GroupLimits(**limits), lambda: False, wall_ms)


def view_of(partitions: int) -> ClusterView:
    topic = SimpleNamespace(partitions=range(partitions))
    return cast(ClusterView, SimpleNamespace(topic=lambda name: topic, topic_id_of=lambda name: "id" * 11))


def offsets_of(groups: Groups, session: ZkSession, partitions: int = 1) -> GroupOffsetHandlers:
    return GroupOffsetHandlers(groups, view_of(partitions), session, NewGroups())


async def committed_parts(handlers: GroupOffsetHandlers, parts: list[OffsetCommitPart]) -> list[OffsetCommitPartResult]:
    reply = await handlers._commit(OffsetCommitRequest("g", -1, "", None, parts), NewGroups().of("c"), Slices())
    assert isinstance(reply.message, OffsetCommitResponse)
    return reply.message.parts


@pytest.mark.parametrize(("count", "metadata"), [(5000, ""), (9000, "m"), (300, "\x00" * 4000)])
async def test_commit_of_very_many_partitions_stands(
    open_session: OpenSession, zk_connect: str, count: int, metadata: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    handlers = offsets_of(groups, session, count)
    for offset in (7, 8):
        parts = [OffsetCommitPart("t" * 200, number, offset, -1, metadata) for number in range(count)]
        results = await committed_parts(handlers, parts)
        assert [(part.partition, part.error_code) for part in results] == [(number, 0) for number in range(count)]
    found = await load_group(session, "g", make=False)
    assert found is not None
    assert {committed.offset for committed in found.offsets.values()} == {8}
    assert len(found.offsets) == count
    await groups.stop()


async def test_commit_of_which_a_piece_cannot_be_written_says_which_partitions_that_are(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    other = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    await groups.get("g")
    multi: Callable[..., Awaitable[list[OperationResult]]] = session.multi
    count = 0

    async def taken_over_meanwhile(operations: list[Operation]) -> list[OperationResult]:
        nonlocal count
        count += 1
        if count == 3:
            await load(other)
        return await multi(operations)

    monkeypatch.setattr(session, "multi", taken_over_meanwhile)
    parts = [OffsetCommitPart("t", number, 7) for number in range(5000)]
    results = await committed_parts(offsets_of(groups, session, 5000), parts)
    bad = {part.partition for part in results if part.error_code}
    assert {part.error_code for part in results} == {0, NotCoordinator.code}
    found = await load_group(other, "g")
    assert found is not None
    assert {where.partition for where in found.offsets} == set(range(5000)) - bad
    await groups.stop()


def join(groups: Groups, one: Coordinated, instance: str) -> Later:
    wait = Later()
    protocols = [GroupProtocol("range", instance.encode())]
    request = JoinGroupRequest("g", 10_000, 10_000, "", instance, "consumer", protocols)
    groups.apply(one, groups.classic(one).join(wait, request, Client("c", "h"), time.monotonic()))
    return wait


async def commit(groups: Groups, one: Coordinated, offset: int) -> None:
    written: asyncio.Future[OttlaError | None] = asyncio.get_running_loop().create_future()
    groups.commit(one, lambda write: write.commit(T0, Committed(offset)), written.set_result)
    assert await written is None


async def test_commit_that_says_that_a_group_is_used_writes_the_generation_that_stands(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    one = await groups.get("g")
    first = join(groups, one, "a")
    await until(lambda: first.reply is not None)
    member = next(iter(groups.classic(one).members)).member_id
    request = SyncGroupRequest("g", 1, member, "a", "consumer", "range", [MemberAssignment(member, b"all")])
    groups.apply(one, groups.classic(one).sync(Later(), request, time.monotonic()))
    await until(lambda: not one.writing)
    join(groups, one, "b")  # waits for the first: nothing is decided yet
    one.loaded.znode = replace(one.loaded.znode, touched_ms=1)  # long ago
    await commit(groups, one, 5)
    found = await load_group(session, "g")
    assert found is not None
    assert found.znode.touched_ms > 1
    assert (found.znode.generation, found.znode.assigned, len(found.znode.members)) == (1, True, 1)
    await groups.stop()


async def test_group_that_commits_is_in_use_however_short_the_retention(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session, retention_ms=2000)
    one = await groups.get("g")
    one.loaded.znode = replace(one.loaded.znode, touched_ms=int(time.time() * 1000) - 1900)
    await commit(groups, one, 5)
    one.loaded.znode = replace(one.loaded.znode, touched_ms=one.loaded.znode.touched_ms - 1000)  # a second later
    await GroupRetention(groups, wall_ms).forget_old()
    assert await offset_of(session) == 5
    await groups.stop()


async def test_group_that_cannot_be_read_does_not_keep_others_from_being_forgotten(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session, retention_ms=1000)
    await session.create("/consumers/a", b"garbage")
    await session.create("/consumers/z", GroupZnode(touched_ms=1).encode())
    await GroupRetention(groups, wall_ms).forget_old()
    assert await session.children("/consumers") == ["a"]
    await groups.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(scaled(10)):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("took_effect", [True, False])
@pytest.mark.parametrize("with_record", [True, False])
async def test_write_whose_answer_was_lost_stands_once_and_its_coordinator_goes_on(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch, took_effect: bool, with_record: bool
) -> None:
    session = await open_session(zk_connect)
    loaded = await load(session)
    multi: Callable[..., Awaitable[list[OperationResult]]] = session.multi
    lost = 0

    async def lossy(operations: list[Operation]) -> list[OperationResult]:
        nonlocal lost
        lost += 1
        if lost == 1:
            if took_effect:
                await multi(operations)
            raise ConnectionLost("lost")
        return await multi(operations)

    monkeypatch.setattr(session, "multi", lossy)
    writes = GroupWrites(session)
    record = replace(loaded.znode, generation=7) if with_record else None
    await put(writes, loaded, 1, record)
    await put(writes, loaded, 2)
    assert await offset_of(session) == 2
    found = await load_group(session, "g")
    assert found is not None
    assert found.version == loaded.version
    assert found.znode.generation == (7 if with_record else 0)


async def test_i22_what_the_last_coordinator_acknowledged_while_it_was_replaced_is_known_to_the_next(
    open_session: OpenSession, zk_connect: str
) -> None:
    session, other = await open_session(zk_connect), await open_session(zk_connect)
    old = await load(session)
    writes = GroupWrites(session)
    await put(writes, old, 100)
    new = await find_group(other, "g")
    assert new is not None
    await put(writes, old, 200)  # acknowledged: nobody has taken the group over yet
    await take_over(other, new, 2, 7)
    assert new.offsets[T0].offset == 200
    await put(GroupWrites(other), new, 100)
    assert await offset_of(session) == 100, "a reset to what it was before is no reset to what is known"


async def test_a_group_is_read_anew_after_a_write_whose_outcome_is_not_known(
    open_session: OpenSession, zk_connect: str
) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    before = await groups.get("g")
    told: list[OttlaError | None] = []
    groups._writes.put = lambda item: item.done(RequestTimedOut("who knows"))  # type: ignore[method-assign]
    groups.commit(before, lambda write: None, told.append)
    assert isinstance(told[0], RequestTimedOut)
    assert before.over
    assert await groups.get("g") is not before


async def test_i22_a_replaced_coordinator_tells_nothing_though_it_has_something_to_write(
    open_session: OpenSession, zk_connect: str
) -> None:
    session, other = await open_session(zk_connect), await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    handlers = offsets_of(groups, session)
    await committed_parts(handlers, [OffsetCommitPart("t", 0, 100)])
    one = groups.loaded("g")
    assert one is not None
    one.writing += 1  # as while the next generation is on its way
    assert (await handlers._fetch(OffsetFetchGroup("g", None))).parts[0].offset == 100
    new = await load_group(other, "g")
    assert new is not None
    await take_over(other, new, 2, 7)
    await put(GroupWrites(other), new, 200)
    told = await handlers._fetch(OffsetFetchGroup("g", None))
    assert (told.error_code, told.parts) == (NotCoordinator.code, ())


async def test_offsets_are_told_without_reading_the_whole_group_again(
    open_session: OpenSession, zk_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand members ask after a rebalance; each time 40 ms went into reading 10,000 partitions that nobody looked at."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    handlers = offsets_of(groups, session)
    await committed_parts(handlers, [OffsetCommitPart("t", 0, 100)])
    monkeypatch.setattr(GroupZnode, "decode", lambda *given: pytest.fail("the group was read"))
    monkeypatch.setattr(session, "get", lambda *given: pytest.fail("the group was asked for"))
    assert (await handlers._fetch(OffsetFetchGroup("g", None))).parts[0].offset == 100
    monkeypatch.undo()
    await groups.stop()


async def test_what_is_committed_while_the_last_offset_is_deleted_does_not_go_with_the_group(
    open_session: OpenSession, zk_connect: str
) -> None:
    """The group goes with its last offset, unless there will be another one."""
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    handlers = offsets_of(groups, session, 2)
    deletion = OffsetDeleteHandler(groups, view_of(2))
    for round_ in range(5):
        await committed_parts(handlers, [OffsetCommitPart("t", 0, 100)])
        one = groups.loaded("g")
        assert one is not None
        deleting = asyncio.create_task(
            deletion._delete(OffsetDeleteRequest("g", [PartitionName("t", 0)]), is_long=False)
        )
        async with asyncio.timeout(scaled(10)):
            while groups._writes._queue or not one.committing:  # noqa: ASYNC110  # until the deletion is on its way
                await asyncio.sleep(0)
        committed = await committed_parts(handlers, [OffsetCommitPart("t", 1, round_)])
        await deleting
        assert [part.error_code for part in committed] == [0]
        found = await load_group(session, "g", make=False)
        assert found is not None
        assert {where.partition: at.offset for where, at in found.offsets.items()} == {1: round_}
        await deletion._delete(OffsetDeleteRequest("g", [PartitionName("t", 1)]), is_long=False)
        assert await load_group(session, "g", make=False) is None
    await groups.stop()


async def test_negative_offsets_are_known_to_the_next_coordinator(open_session: OpenSession, zk_connect: str) -> None:
    session = await open_session(zk_connect)
    await ensure_persistent_paths(session)
    groups = coordinator(session)
    offsets = {0: -1, 1: -2, 2: -(2**63)}
    parts = [OffsetCommitPart("t", number, offset) for number, offset in offsets.items()]
    results = await committed_parts(offsets_of(groups, session, 3), parts)
    assert [part.error_code for part in results] == [0, 0, 0]
    await groups.stop()
    found = await load_group(session, "g", make=False)
    assert found is not None
    assert {where.partition: at.offset for where, at in found.offsets.items()} == offsets
