"""Named writes on a live ZooKeeper: all attempts at a batch get the same numbers, and one that was overtaken gets none."""

import asyncio
from itertools import count
from typing import cast

import pytest

from ottla.wire.errors import InvalidProducerEpoch, PolicyViolation
from ottla.zk import named_writes
from ottla.zk.errors import NoNode
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.named_writes import begin_write, end_write, end_writer, expire_ended, expire_writes
from ottla.zk.operations import Stat
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.named_writes import NamedWriteZnode
from tests.conftest import OpenSession

pytestmark = pytest.mark.cluster

TASK = ("query / with ünusual name", 3)


class Ids:
    """Gives producer ids, as a broker does."""

    def __init__(self) -> None:
        self._ids = count(100)

    async def take(self) -> int:
        return next(self._ids)


async def begin(
    session: ZkSession, batch: int, note: bytes = b"", ids: Ids | None = None, now_ms: int = 0
) -> NamedWriteZnode:
    return await begin_write(session, TASK, batch, note, now_ms, (ids or Ids()).take)


@pytest.fixture
async def session(open_session: OpenSession, zk_connect: str) -> ZkSession:
    opened = await open_session(zk_connect)
    await ensure_persistent_paths(opened)
    return opened


async def test_all_attempts_at_a_batch_get_the_numbers_and_the_note_of_the_first(session: ZkSession) -> None:
    first = await begin(session, 0, b"rows of the first")
    again = await begin(session, 0, b"rows of another", Ids())
    assert (again.producer_id, again.epoch, again.note) == (first.producer_id, first.epoch, b"rows of the first")


async def test_the_next_batch_has_the_next_epoch_and_an_attempt_at_an_earlier_one_is_refused(
    session: ZkSession,
) -> None:
    ids = Ids()
    first = await begin(session, 4, ids=ids)
    second = await begin(session, 9, b"second", ids)
    assert (second.producer_id, second.epoch, second.note) == (first.producer_id, first.epoch + 1, b"second")
    with pytest.raises(InvalidProducerEpoch, match=r"batch 4 .* comes after batch 9"):
        await begin(session, 4, ids=ids)


async def test_attempts_at_the_same_moment_agree(
    open_session: OpenSession, zk_connect: str, session: ZkSession
) -> None:
    others = [session, await open_session(zk_connect), await open_session(zk_connect)]
    ids = Ids()
    for batch in range(20):
        begun = await asyncio.gather(
            *(begin(other, batch, b"%d" % number, ids) for number, other in enumerate(others * 3))
        )
        assert len({(one.producer_id, one.epoch, one.note) for one in begun}) == 1


async def test_a_batch_that_is_done_stays_done_until_the_next_begins(session: ZkSession) -> None:
    await begin(session, 1)
    await end_write(session, TASK, 1, 0)
    assert (await begin(session, 1)).done
    assert not (await begin(session, 2)).done
    await end_write(session, TASK, 1, 0)  # late: it is not about the batch that has begun meanwhile
    assert not (await begin(session, 2)).done


async def test_what_was_never_begun_cannot_end(session: ZkSession) -> None:
    await begin(session, 1)
    with pytest.raises(InvalidProducerEpoch, match="never begun"):
        await end_write(session, TASK, 2, 0)


class Behind:
    """A session whose server has not heard of the last write to a znode before it is asked to catch up."""

    def __init__(self, session: ZkSession, seen: tuple[bytes, Stat] | None) -> None:
        self._session = session
        self._seen = seen
        self._behind = True

    async def get(self, path: str) -> tuple[bytes, Stat]:
        if not self._behind:
            return await self._session.get(path)
        if self._seen is None:
            raise NoNode(path)
        return self._seen

    async def sync(self, path: str) -> None:
        self._behind = False
        await self._session.sync(path)

    async def set(self, path: str, data: bytes, version: int) -> Stat:
        return await self._session.set(path, data, version)


@pytest.mark.parametrize("batch", [0, 1])
async def test_batch_is_noted_as_stored_though_the_server_that_is_asked_is_behind(
    session: ZkSession, batch: int
) -> None:
    """It knows nothing of the task yet, or that the batch before was stored: neither is about this one."""
    seen = None
    for number in range(batch):
        await begin(session, number)
        await end_write(session, TASK, number, 0)
        seen = await session.get(NamedWriteZnode.path(*TASK))
    await begin(session, batch)
    await end_write(cast(ZkSession, Behind(session, seen)), TASK, batch, 0)
    assert (await begin(session, batch)).done


async def test_batch_after_one_that_is_done_cannot_end_before_it_was_begun(session: ZkSession) -> None:
    await begin(session, 1)
    await end_write(session, TASK, 1, 0)
    with pytest.raises(InvalidProducerEpoch, match="never begun"):
        await end_write(session, TASK, 2, 0)


async def test_when_epochs_are_used_up_the_next_batch_has_another_producer(
    session: ZkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_writes, "EPOCH_MAX", 1)
    ids = Ids()
    numbers = [
        (begun.producer_id, begun.epoch) for begun in [await begin(session, batch, ids=ids) for batch in range(4)]
    ]
    assert numbers == [(100, 0), (100, 1), (101, 0), (101, 1)]


async def test_what_nobody_goes_on_with_is_forgotten_and_nothing_else(session: ZkSession) -> None:
    await begin_write(session, ("old", 0), 0, b"", 1_000, Ids().take)
    await begin_write(session, ("both", 0), 0, b"", 1_000, Ids().take)
    await begin_write(session, ("both", 1), 0, b"", 2_000, Ids().take)
    assert await expire_writes(session, 2_000) == 2
    assert await session.children(NamedWriteZnode.PARENT) == ["both"]
    assert await session.children(NamedWriteZnode.writer_path("both")) == ["1"]


async def test_writers_are_bounded(session: ZkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_writes, "WRITERS_MAX", 2)
    for number in range(2):
        await begin_write(session, (f"writer {number}", 0), 0, b"", 0, Ids().take)
    await begin_write(session, ("writer 0", 1), 0, b"", 0, Ids().take)  # one that is known may go on
    with pytest.raises(PolicyViolation, match="2 writers"):
        await begin_write(session, ("writer 2", 0), 0, b"", 0, Ids().take)


async def test_a_writer_that_has_ended_takes_no_place_and_no_attempt_at_its_tasks_begins_anew(
    open_session: OpenSession, zk_connect: str, session: ZkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_writes, "WRITERS_MAX", 2)
    other = await open_session(zk_connect)
    for number in range(10):
        writer = f"write {number}"
        for task in range(3):
            await begin_write(session, (writer, task), 0, b"", 0, Ids().take)
            await end_write(session, (writer, task), 0, 0)
        await end_writer(session, writer, 1_000)
        await end_writer(other, writer, 1_000)  # the answer was lost
        for late in (session, other):
            with pytest.raises(
                InvalidProducerEpoch, match=f"task 1 of {writer} begins after the whole write has ended"
            ):
                await begin_write(late, (writer, 1), 0, b"", 0, Ids().take)
        await end_write(session, (writer, 1), 0, 0)  # an attempt that began before has stored the same
    assert await session.children(NamedWriteZnode.PARENT) == []


async def test_a_task_that_was_made_anew_and_whose_answer_was_lost_gets_no_numbers_either(session: ZkSession) -> None:
    await begin_write(session, ("w", 0), 0, b"", 0, Ids().take)
    await end_writer(session, "w", 0)
    await session.create_if_missing(NamedWriteZnode.writer_path("w"))
    await session.create(NamedWriteZnode.path("w", 0), NamedWriteZnode(999, 0, 0, b"", False, 0).encode())
    with pytest.raises(InvalidProducerEpoch, match="has ended"):
        await begin_write(session, ("w", 0), 0, b"", 0, Ids().take)
    assert await session.children(NamedWriteZnode.PARENT) == []


async def test_attempts_that_begin_while_their_writer_ends_get_the_old_numbers_or_none(
    open_session: OpenSession, zk_connect: str, session: ZkSession
) -> None:
    other = await open_session(zk_connect)
    for number in range(20):
        ids, writer = Ids(), f"write {number}"
        first = await begin_write(session, (writer, 0), 0, b"", 0, ids.take)
        attempts = [begin_write(other, (writer, 0), 0, b"", 0, ids.take) for _ in range(5)]
        _, *found = await asyncio.gather(end_writer(session, writer, 0), *attempts, return_exceptions=True)
        for one in found:
            assert isinstance(one, InvalidProducerEpoch) or one == first
    assert await session.children(NamedWriteZnode.PARENT) == []


async def test_that_a_writer_has_ended_is_forgotten_after_a_while(
    session: ZkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await end_writer(session, f"write {number}", number)
    assert await expire_ended(session, 3) == 3
    assert await expire_ended(session, 3) == 0
    with pytest.raises(InvalidProducerEpoch):
        await begin_write(session, ("write 3", 0), 0, b"", 0, Ids().take)
    await begin_write(session, ("write 2", 0), 0, b"", 0, Ids().take)
    monkeypatch.setattr(named_writes, "ENDED_OF_A_SHARD", 0)
    with pytest.raises(PolicyViolation, match="too many writers have ended"):
        await end_writer(session, "write 2", 0)
    assert await session.children(NamedWriteZnode.PARENT) == ["write 2"]
