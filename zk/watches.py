"""Watches that last: they arm themselves again after every event, reconnect and new session.

ZooKeeper's own watches fire once and are lost with the connection. Changes in quick succession may be reported as one: a
watch tells the latest state, not every state. Both classes own one task, from ``start`` to ``stop``.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from ottla.zk.errors import ConnectionLost, NoNode, SessionExpired, ZkError, ZkUnavailable
from ottla.zk.operations import Stat
from ottla.zk.session.pipeline import WatchEvent
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

# Before ZooKeeper is asked again after it refused, for instance for want of rights.
_REFUSED_DELAY_S = 1.0


class _Watch(ABC):
    """Read, report, wait for an event, and again."""

    def __init__(self, session: ZkSession, path: str) -> None:
        self._session = session
        self._path = path
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch; the current state is reported as soon as it was read."""
        assert self._task is None, f"the watch of {self._path} runs already"
        self._task = asyncio.create_task(self._run(), name=f"watch {self._path}")

    async def stop(self) -> None:
        """No more calls after this."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            changed = asyncio.Event()
            try:
                await self._session.wait_connected()
                await self._read_and_report(_sets(changed))
                await changed.wait()
            except (ConnectionLost, SessionExpired, ZkUnavailable) as error:
                if self._session.closed:
                    return
                logger.debug("watch reads again path=%s error=%r", self._path, error)
                # A connection that dropped a moment ago may not be known to be down yet: let the loop hear of it.
                await asyncio.sleep(0.01)
            except ZkError as error:
                logger.error("watch was refused path=%s error=%r", self._path, error)
                await asyncio.sleep(_REFUSED_DELAY_S)

    @abstractmethod
    async def _read_and_report(self, event: Callable[[WatchEvent], None]) -> None: ...

    def _report(self, callback: Callable[..., None], *args: object) -> None:
        try:
            callback(*args)
        except Exception:
            logger.exception("watch callback failed path=%s", self._path)


class NodeWatch(_Watch):
    """Calls ``callback(data, stat)`` with a znode's current value and after every write, ``(None, None)`` while it is absent.

    A write that leaves the data as they were is reported too, for it changed the version.
    """

    def __init__(self, session: ZkSession, path: str, callback: Callable[[bytes | None, Stat | None], None]) -> None:
        super().__init__(session, path)
        self._callback = callback
        self._reported: tuple[int, int] | None = None

    async def _read_and_report(self, event: Callable[[WatchEvent], None]) -> None:
        # Sent together and in this order: the watch stands before the read, so that no change falls between them.
        _, value = await asyncio.gather(self._session.exists(self._path, event), self._value())
        data, stat = value
        # The zxids name the creation and the last write: a znode that was made anew differs even at the same version.
        seen = (stat.czxid, stat.mzxid) if stat is not None else (0, 0)
        if seen != self._reported:
            self._reported = seen
            self._report(self._callback, data, stat)

    async def _value(self) -> tuple[bytes | None, Stat | None]:
        try:
            return await self._session.get(self._path)
        except NoNode:
            return None, None


class ChildrenWatch(_Watch):
    """Calls ``callback(names)`` with the sorted names of a znode's children, and after every event and reconnect.

    The list may be equal to the one before: a child that vanished and came back within one event shows only so. Whoever
    needs to know compares what is inside the children. No znode means no children.
    """

    def __init__(self, session: ZkSession, path: str, callback: Callable[[list[str]], None]) -> None:
        super().__init__(session, path)
        self._callback = callback

    async def _read_and_report(self, event: Callable[[WatchEvent], None]) -> None:
        try:
            names = await self._session.children(self._path, event)
        except NoNode:
            if await self._session.exists(self._path, event) is not None:
                event(WatchEvent.CREATED)  # it was made in between: read again at once
                return
            names = []
        self._report(self._callback, names)


def _sets(changed: asyncio.Event) -> Callable[[WatchEvent], None]:
    return lambda _: changed.set()
