"""All that this broker writes about groups: one multi at a time, which carries whatever has come since the one before.

Invariant [I22]: every multi checks, for each group in it, that the group's znode has the version that this coordinator wrote
last, and that it is the same group (``LoadedGroup.fence``). Whoever takes the group over writes there first. So nothing of a
coordinator that was replaced takes effect, however late.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ottla.wire.errors import InvalidRequest, NotCoordinator, OttlaError, RequestTimedOut, UnknownServerError
from ottla.zk.errors import ConnectionLost, MultiFailed, NoNode, RequestTooLarge, SessionExpired, ZkError, ZkUnavailable
from ottla.zk.groups import FENCE, GroupWrite, LoadedGroup, load_group
from ottla.zk.operations import Operation, Stat, request_size
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import GroupZnode

logger = logging.getLogger(__name__)

MULTI_BYTES = 400_000
MULTI_OPERATIONS = 2000
WRITE_TIMEOUT_S = 10.0
RETRY_S = 0.05
REFUSALS_MAX = 3
"""How often what stands below a group's znode is read again because a write did not fit to it."""


@dataclass
class PendingWrite:
    """One thing to write about one group. ``done`` is called with None once it stands, or with what kept it from that."""

    loaded: LoadedGroup
    fill: Callable[[GroupWrite], None]
    done: Callable[[OttlaError | None], None]
    record: GroupZnode | None = None
    """The group's own znode from then on."""
    deadline: float = 0.0
    refusals: int = 0
    taken: bool = False
    """Whether it is on its way, or may be: until then its record may still become a later one."""


@dataclass
class _Part:
    """What one multi has of one group."""

    write: GroupWrite
    items: list[PendingWrite]
    record: GroupZnode | None = None

    @property
    def fence(self) -> list[Operation]:
        return self.items[0].loaded.fence(self.record)


class GroupWrites:
    """Owns a task while there is something to write."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._queue: deque[PendingWrite] = deque()
        self._task: asyncio.Task[None] | None = None
        self.multis = 0
        """How many were written."""
        self._alone = 0
        """How many of the next are written each for itself: together they were too much."""

    def put(self, item: PendingWrite) -> None:
        item.deadline = time.monotonic() + WRITE_TIMEOUT_S
        self._queue.append(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="group writes")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(list(self._queue), NotCoordinator("this broker is stopping"))
        self._queue.clear()

    def drop(self, loaded: LoadedGroup, why: OttlaError) -> None:
        """This broker coordinates the group no more: what was not written yet is not written."""
        dropped = [item for item in self._queue if item.loaded is loaded]
        self._queue = deque(item for item in self._queue if item.loaded is not loaded)
        self._fail(dropped, why)

    async def _run(self) -> None:
        try:
            while self._queue:
                parts = self._take()
                try:
                    await self._write(parts)
                except asyncio.CancelledError:
                    self._fail(_items(parts), NotCoordinator("this broker is stopping"))
                    raise
                except Exception:  # a loop that ended by itself would leave groups that never go on
                    logger.exception("writing about groups failed")
                    self._fail(_items(parts), UnknownServerError("the broker's log has the details"))
        finally:
            self._task = None

    def _take(self) -> list[_Part]:
        """As much as fits into one multi, in order; of each group its znode once."""
        parts: dict[int, _Part] = {}
        size = operations = 0
        most = MULTI_OPERATIONS
        if self._alone:
            self._alone, most = self._alone - 1, 1
        while self._queue and size < MULTI_BYTES and operations < most:
            item = self._queue[0]
            part = parts.get(id(item.loaded))
            if part is None:
                part = parts[id(item.loaded)] = _Part(GroupWrite(item.loaded), [])
            elif part.record is not None and item.record is not None:
                break
            self._queue.popleft()
            item.taken = True
            part.items.append(item)
            part.record = item.record or part.record
            before = len(part.write.operations)
            item.fill(part.write)
            added = part.write.operations[before:]
            operations += FENCE + len(added)
            size += sum(map(request_size, added)) + (len(item.record.encode()) if item.record is not None else 0)
        return list(parts.values())

    async def _write(self, parts: list[_Part]) -> None:
        operations: list[Operation] = []
        starts: list[int] = []
        for part in parts:
            starts.append(len(operations))
            operations += [*part.fence, *part.write.operations]
        try:
            results = await self._session.multi(operations)
        except MultiFailed as failed:
            await self._refused(parts, starts, failed)
        except (ConnectionLost, ZkUnavailable) as error:
            await self._unsure(parts, error)
        except SessionExpired:
            self._fail(_items(parts), NotCoordinator("this broker has lost its ZooKeeper session"))
        except RequestTooLarge as error:
            if len(_items(parts)) > 1:
                self._alone = len(_items(parts))
                self._put_back(parts)
            else:
                self._fail(_items(parts), InvalidRequest(f"too much for one write: {error}"))
        except ZkError as error:
            logger.warning("groups were not written error=%s", error)
            self._fail(_items(parts), UnknownServerError(f"ZooKeeper did not take it: {error}"))
        else:
            self.multis += 1
            for part, start in zip(parts, starts, strict=True):
                stat = results[start]
                self._written(part, stat.version if isinstance(stat, Stat) else part.items[0].loaded.version)

    def _written(self, part: _Part, version: int) -> None:
        part.items[0].loaded.version = version
        part.write.done()
        for item in part.items:
            item.done(None)

    async def _refused(self, parts: list[_Part], starts: list[int], failed: MultiFailed) -> None:
        """One operation was refused, so nothing was written: find whose it was, and try the others again."""
        number = max(i for i, start in enumerate(starts) if start <= failed.index)
        guilty = parts[number]
        loaded = guilty.items[0].loaded
        if failed.index < starts[number] + FENCE:
            logger.info("group has another coordinator group=%s", loaded.group)
            self._fail(guilty.items, NotCoordinator(f"another broker coordinates group {loaded.group!r} by now"))
            self.drop(loaded, NotCoordinator(f"another broker coordinates group {loaded.group!r} by now"))
            parts = [part for part in parts if part is not guilty]
        else:
            for item in guilty.items:
                item.refusals += 1
            await self._read_again(loaded)
            hopeless = [item for item in guilty.items if item.refusals > REFUSALS_MAX]
            if hopeless:  # the others must not wait for it
                logger.error("group cannot be written group=%s error=%s", loaded.group, failed)
                guilty.items = [item for item in guilty.items if item.refusals <= REFUSALS_MAX]
                self._put_back(parts)
                self._fail(hopeless, UnknownServerError(f"what stands in ZooKeeper is not what is expected: {failed}"))
                return
        self._put_back(parts)

    async def _read_again(self, loaded: LoadedGroup) -> None:
        """Below the group's znode stands something else than was known: somebody's hand, or an answer that was lost."""
        try:
            found = await load_group(self._session, loaded.group, make=False)
        except ZkError as error:
            logger.info("group could not be read again group=%s error=%s", loaded.group, error)
            await asyncio.sleep(RETRY_S)
            return
        if found is not None and (found.version, found.znode.life) == (loaded.version, loaded.znode.life):
            loaded.offsets, loaded.owners, loaded.members = found.offsets, found.owners, found.members
            loaded.folders, loaded.commits, loaded.unreadable = found.folders, found.commits, found.unreadable

    async def _unsure(self, parts: list[_Part], error: ZkError) -> None:
        """Whether it was written is not known. A group's znode tells, for all; without one, writing again does no harm."""
        logger.info("groups: outcome of a write is unknown error=%s", error)
        await asyncio.sleep(RETRY_S)
        deadline = min(item.deadline for item in _items(parts))
        try:
            async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                await self._session.wait_connected()
                await self._session.sync("/")
                told = [part for part in parts if part.record is not None]
                if told:
                    if await self._stands(told[0]):
                        for part in parts:
                            changed = 1 if part.record is not None else 0
                            self._written(part, part.items[0].loaded.version + changed)
                        return
                else:
                    for part in parts:
                        await self._read_again(part.items[0].loaded)
        except (TimeoutError, ZkError) as why:
            logger.info("groups: ZooKeeper could not be asked error=%r", why)
        self._put_back(parts)

    async def _stands(self, part: _Part) -> bool:
        loaded = part.items[0].loaded
        try:
            data, stat = await self._session.get(GroupZnode.path(loaded.group))
        except NoNode:
            return False
        return part.record is not None and stat.version == loaded.version + 1 and data == part.record.encode()

    def _put_back(self, parts: list[_Part]) -> None:
        now = time.monotonic()
        late = [item for item in _items(parts) if item.deadline <= now]
        self._queue.extendleft(item for item in reversed(_items(parts)) if item.deadline > now)
        self._fail(late, RequestTimedOut("ZooKeeper did not answer in time: whether it was written is not known"))

    def _fail(self, items: list[PendingWrite], why: OttlaError) -> None:
        for item in items:
            item.done(why)


def _items(parts: list[_Part]) -> list[PendingWrite]:
    return [item for part in parts for item in part.items]
