"""Being a member: registered in ZooKeeper and in the race for controller, anew after every lost session."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from ottla.broker.controller.control_loop import ControlLoop
from ottla.broker.controller.election_loop import ElectionLoop
from ottla.broker.peers import Identity
from ottla.wire.errors import OttlaError
from ottla.zk.membership import register
from ottla.zk.session import ZkSession
from ottla.zk.session_state import SessionState
from ottla.zk.znodes import BrokerZnode

logger = logging.getLogger(__name__)

RETRY_S = 0.5


class MembershipLoop:
    """Owns a task from ``start`` to ``stop``. ``identity`` is who this broker is in its present life."""

    def __init__(
        self, session: ZkSession, broker: BrokerZnode, identity: Identity, boot_id: str, on_term: Callable[[bool], None]
    ) -> None:
        """``identity`` has no broker epoch yet: registering gives it one."""
        self._session = session
        self._broker = broker
        self._boot_id = boot_id
        self._on_term = on_term
        self._expired = asyncio.Event()
        self._election: ElectionLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.identity = identity
        self.registered = False

    def set_address(self, host: str, port: int) -> None:
        """Where others find this broker; known once it listens, so before ``start``."""
        self._broker = replace(self._broker, host=host, port=port)

    @property
    def controller(self) -> ControlLoop | None:
        """The controller, if it is this broker."""
        return self._election.controller if self._election is not None else None

    async def start(self, *, unclean: bool) -> None:
        """Register for the first time: an error here, such as a broker id that is taken, ends the broker."""
        self._session.subscribe(self._session_changed)
        await self._join(unclean=unclean)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="membership")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._leave()

    def _session_changed(self, state: SessionState) -> None:
        logger.info("zookeeper session changed state=%s", state.name)
        if state is SessionState.EXPIRED:
            self.registered = False
            self._expired.set()

    async def _run(self) -> None:
        while True:
            await self._expired.wait()
            self._expired.clear()
            await self._leave()
            while not self._expired.is_set():
                try:
                    await self._session.wait_connected()
                    await self._join(unclean=False)
                    break
                except OttlaError as error:
                    logger.warning("broker registration failed error=%s", error)
                    await asyncio.sleep(RETRY_S)

    async def _join(self, *, unclean: bool) -> None:
        broker = replace(self._broker, timestamp_ms=int(time.time() * 1000))
        registration = await register(
            self._session, broker, incarnation=uuid.uuid4().hex, boot_id=self._boot_id, unclean=unclean
        )
        self.identity = replace(self.identity, broker_epoch=registration.broker_epoch)
        self.registered = True
        self._election = ElectionLoop(self._session, self.identity, self._on_term)
        await self._election.start()

    async def _leave(self) -> None:
        self.registered = False
        election, self._election = self._election, None
        if election is not None:
            await election.stop()
