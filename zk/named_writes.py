"""Named writes in ZooKeeper: every attempt at a batch gets the numbers of the first one.

Each step is a compare-and-set on the task's znode and may be taken again: after a lost answer the caller simply asks anew.
A writer that will never write again (a batch write under a name that was made up for it) leaves a small znode that says so,
elsewhere and not for long, in place of its tasks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ottla.wire.errors import InvalidProducerEpoch, OttlaError, PolicyViolation
from ottla.zk.errors import BadVersion, NodeExists, NoNode, NotEmpty
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.json_fields import MalformedZnode
from ottla.zk.znodes.named_writes import EndedWriterZnode, NamedWriteZnode

logger = logging.getLogger(__name__)

EPOCH_MAX = 2**15 - 1
"""The last epoch of a producer id; the batch after it gets another id."""

WRITERS_MAX = 5_000
"""Writers that stand in ZooKeeper at a time: their names must fit into one answer of it."""

ENDED_OF_A_SHARD = 5_000
"""The same for those that have ended, which stand in many folders."""

IN_FLIGHT = 64

ATTEMPTS_MAX = 20
"""How often a znode may be changed under our hands; each time another attempt got further."""


async def begin_write(
    session: ZkSession,
    task: tuple[str, int],
    batch: int,
    note: bytes,
    now_ms: int,
    new_id: Callable[[], Awaitable[int]],
) -> NamedWriteZnode:
    """The numbers of a batch of a writer's task: those of the first attempt at it, or new ones.

    InvalidProducerEpoch if a later batch has begun, or the writer has ended.
    """
    begun = await _begin(session, task, batch, note, now_ms, new_id)
    await _check_not_ended(session, task)
    return begun


async def _begin(
    session: ZkSession,
    task: tuple[str, int],
    batch: int,
    note: bytes,
    now_ms: int,
    new_id: Callable[[], Awaitable[int]],
) -> NamedWriteZnode:
    path = NamedWriteZnode.path(*task)
    for _ in range(ATTEMPTS_MAX):
        known, version = await _read(session, path)
        if known is not None and batch == known.batch:
            return known
        if known is not None and batch < known.batch:
            raise _overtaken(path, batch, known)
        # Invariant: another batch, another epoch. What was sent under the old one is refused wherever the new one was seen.
        if known is None or known.epoch >= EPOCH_MAX:
            begun = NamedWriteZnode(await new_id(), 0, batch, note, False, now_ms)
        else:
            begun = NamedWriteZnode(known.producer_id, known.epoch + 1, batch, note, False, now_ms)
        try:
            if known is None:
                await _create(session, task, begun)
            else:
                await session.set(path, begun.encode(), version)
            return begun
        except (BadVersion, NodeExists, NoNode):
            await session.sync("/")  # another attempt was quicker: what it wrote counts
    raise OttlaError(f"znode {path} is changed all the time")


async def end_write(session: ZkSession, task: tuple[str, int], batch: int, now_ms: int) -> None:
    """Note that a batch is stored. If a later one has begun, or it was noted before, there is nothing to do."""
    path = NamedWriteZnode.path(*task)
    for _ in range(ATTEMPTS_MAX):
        known, version = await _read(session, path)
        if known is None or known.batch < batch:  # our server is behind; or it was forgotten, or nobody has begun it
            await session.sync("/")
            known, version = await _read(session, path)
        if known is None or known.batch > batch or (known.batch == batch and known.done):
            return
        if known.batch < batch:
            raise InvalidProducerEpoch(f"batch {batch} of {path} was never begun")
        try:
            await session.set(path, replace(known, done=True, touched_ms=now_ms).encode(), version)
            return
        except (BadVersion, NoNode):
            await session.sync("/")


async def end_writer(session: ZkSession, writer: str, now_ms: int) -> None:
    """All tasks of a writer are done, and nobody goes on under its name: forget them. Attempts that begin later are refused."""
    ended, shard = EndedWriterZnode.path(writer), EndedWriterZnode.shard_path(writer)
    await session.create_if_missing(shard)
    if len(await session.children(shard)) >= ENDED_OF_A_SHARD:
        raise PolicyViolation(f"too many writers have ended of late: there are {ENDED_OF_A_SHARD} under {shard}")
    try:
        # Invariant [I29]: this stands before the first task goes. So whoever finds a task gone and makes it anew, or finds one
        # that was made so, finds this afterwards: ZooKeeper shows a session nothing older than what it has seen.
        await session.create(ended, EndedWriterZnode(now_ms).encode())
    except NodeExists:
        pass
    parent = NamedWriteZnode.writer_path(writer)
    try:
        await _delete_all(session, [f"{parent}/{task}" for task in await session.children(parent)])
        await session.delete(parent, -1)
    except (NoNode, NotEmpty):
        pass  # it is gone; or somebody has just begun anew, and takes it back


async def expire_ended(session: ZkSession, before_ms: int) -> int:
    """Forget writers that ended before that; how many they were."""
    expired = 0
    for shard in await session.children(EndedWriterZnode.PARENT):
        folder = f"{EndedWriterZnode.PARENT}/{shard}"
        names = await session.children(folder)
        for start in range(0, len(names), IN_FLIGHT):
            paths = [f"{folder}/{name}" for name in names[start : start + IN_FLIGHT]]
            expired += sum(await asyncio.gather(*(_expire(session, path, before_ms, _ended_ms) for path in paths)))
    return expired


async def _check_not_ended(session: ZkSession, task: tuple[str, int]) -> None:
    """If its writer has ended, a task that was begun is taken back: the one that was there may have had other numbers."""
    if await session.exists(EndedWriterZnode.path(task[0])) is None:
        return
    try:
        await session.delete(NamedWriteZnode.path(*task), -1)
        await session.delete(NamedWriteZnode.writer_path(task[0]), -1)
    except (NoNode, NotEmpty):
        pass
    raise InvalidProducerEpoch(
        f"task {task[1]} of {task[0]} begins after the whole write has ended",
        hint="an attempt that was left behind may end; a new write needs another name",
    )


async def _delete_all(session: ZkSession, paths: list[str]) -> None:
    async def delete(path: str) -> None:
        try:
            await session.delete(path, -1)
        except NoNode:
            pass

    for start in range(0, len(paths), IN_FLIGHT):
        await asyncio.gather(*map(delete, paths[start : start + IN_FLIGHT]))


async def expire_writes(session: ZkSession, before_ms: int) -> int:
    """Forget tasks that nobody wrote under since then; how many they were."""
    expired = 0
    for writer in await session.children(NamedWriteZnode.PARENT):
        parent = f"{NamedWriteZnode.PARENT}/{writer}"
        try:
            tasks = await session.children(parent)
            gone = [await _expire(session, f"{parent}/{task}", before_ms, _touched_ms) for task in tasks]
            expired += sum(gone)
            if all(gone):
                await session.delete(parent, -1)
        except (NoNode, NotEmpty):
            continue  # somebody else deletes it too, or writes there again
    return expired


def _ended_ms(path: str, data: bytes) -> int:
    return EndedWriterZnode.decode(path, data).ended_ms


def _touched_ms(path: str, data: bytes) -> int:
    return NamedWriteZnode.decode(path, data).touched_ms


async def _expire(session: ZkSession, path: str, before_ms: int, last_ms: Callable[[str, bytes], int]) -> bool:
    """Delete it if that was before; whether it is gone by now."""
    try:
        data, stat = await session.get(path)
        if last_ms(path, data) >= before_ms:
            return False
        await session.delete(path, stat.version)
    except MalformedZnode as error:
        logger.warning("what is known of a write cannot be read: %s", error)
        return False
    except BadVersion:
        return False
    except NoNode:
        pass
    return True


async def _read(session: ZkSession, path: str) -> tuple[NamedWriteZnode | None, int]:
    try:
        data, stat = await session.get(path)
    except NoNode:
        return None, -1
    return NamedWriteZnode.decode(path, data), stat.version


async def _create(session: ZkSession, task: tuple[str, int], begun: NamedWriteZnode) -> None:
    path, parent = NamedWriteZnode.path(*task), NamedWriteZnode.writer_path(task[0])
    try:
        await session.create(path, begun.encode())
    except NoNode:
        if len(await session.children(NamedWriteZnode.PARENT)) >= WRITERS_MAX:
            raise PolicyViolation(
                f"there are {WRITERS_MAX} writers with names already",
                hint="they are forgotten after named.write.expiration.ms; a smaller one forgets them sooner",
            ) from None
        await session.create_if_missing(parent)
        await session.create(path, begun.encode())


def _overtaken(path: str, batch: int, known: NamedWriteZnode) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"batch {batch} of {path.removeprefix(NamedWriteZnode.PARENT + '/')} comes after batch {known.batch} has begun",
        hint="an attempt that was left behind may end; a writer that was put back to an earlier batch needs another name",
    )
