"""Writes about groups on a live ZooKeeper: many in one multi, none of a coordinator that was replaced, none lost in silence."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.groups.writes_loop import GroupWrites, PendingWrite, _Part
from ottla.wire.errors import NotCoordinator, OttlaError
from ottla.wire.names import TopicPartition
from ottla.zk.errors import ConnectionLost
from ottla.zk.groups import Committed, GroupWrite, LoadedGroup, load_group
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.operations import Check, Operation, OperationResult
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import CommitZnode, GroupZnode
from tests.conftest import OpenSession

pytestmark = pytest.mark.cluster

T0 = TopicPartition("t", 0)


async def load(session: ZkSession, group: str = "g") -> LoadedGroup:
    """As a coordinator does when it takes a group over."""
    await ensure_persistent_paths(session)
    loaded = await load_group(session, group)
    assert loaded is not None
    stat = await session.set(GroupZnode.path(group), loaded.znode.encode(), loaded.version)
    loaded.version = stat.version
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
    monkeypatch.setattr(_Part, "head", property(lambda part: Check(GroupZnode.path("g"), -1)))
    assert await replaced_coordinator_writes(session, other) == (True, 6)


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
    record = GroupZnode(generation=7, coordinator=1) if with_record else None
    await put(writes, loaded, 1, record)
    await put(writes, loaded, 2)
    assert await offset_of(session) == 2
    found = await load_group(session, "g")
    assert found is not None
    assert found.version == loaded.version
    assert found.znode.generation == (7 if with_record else 0)
