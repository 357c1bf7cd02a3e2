"""Every broker races for /controller, all the time: the winner runs a term, the others watch it until it ends or fails."""

import asyncio
import logging
import time
from collections.abc import Callable

from ottla.broker.controller.control_loop import ControllerPolicy, ControlLoop, Predecessor
from ottla.broker.controller.controller_watch_loop import ControllerWatch
from ottla.broker.controller.silent_controller import is_unreachable_to_most
from ottla.broker.peers import Identity, probe
from ottla.wire.errors import OttlaError
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.election import ControllerTerm, OtherController, elect, resign, take_over
from ottla.zk.session.session import ZkSession
from ottla.zk.watches import NodeWatch
from ottla.zk.znodes.controller import ControllerZnode

logger = logging.getLogger(__name__)

RETRY_S = 0.2
ENDPOINT_RETRY_S = 1.0

RECENT_S = 10.0
"""A connection that ended so long ago at most may have ended because the broker that is the controller now died."""


class ElectionLoop:
    """Owns a task from ``start`` to ``stop``; ``controller`` is the term that this broker holds, if it does."""

    def __init__(
        self,
        session: ZkSession,
        identity: Identity,
        endpoint: Callable[[int], BrokerEndpoint | None],
        policy: ControllerPolicy,
        on_term: Callable[[bool], None],
    ) -> None:
        self._session = session
        self._policy = policy
        self._identity = identity
        self._endpoint = endpoint
        self._on_term = on_term
        self._other: OtherController | None = None
        self._predecessor: Predecessor | None = None
        self._lost = False
        self._silent = False
        self._connection_ended_at: dict[int, float] = {}
        self._changed = asyncio.Event()
        self._watch = NodeWatch(session, ControllerZnode.PATH, lambda data, stat: self._controller_changed())
        self._task: asyncio.Task[None] | None = None
        self.controller: ControlLoop | None = None

    async def start(self) -> None:
        await self._watch.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="controller election")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._watch.stop()

    def peer_lost(self, broker_id: int) -> None:
        """A connection from another broker ended; if that was the controller's, look at once whether it died.

        The broker may have become the controller without this loop having read so: then it looks as soon as it has.
        """
        if self._other is not None and self._other.broker_id == broker_id:
            self._lost = True
            self._changed.set()
        else:
            self._connection_ended_at[broker_id] = time.monotonic()

    def _controller_changed(self) -> None:
        self._changed.set()
        if self.controller is not None:
            self.controller.may_be_replaced()

    def _controller_silent(self) -> None:
        self._silent = True
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._race()
            except OttlaError as error:
                logger.info("controller election failed error=%s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("the controller failed")
                await asyncio.sleep(RETRY_S)

    async def _race(self) -> None:
        outcome = await self._claim()
        if isinstance(outcome, OtherController):
            if outcome != self._other:
                logger.info("controller exists broker=%d epoch=%d (NodeExists)", outcome.broker_id, outcome.epoch)
            is_same_broker = self._other is not None and outcome.broker_id == self._other.broker_id
            self._other = outcome
            self._lost = (self._lost and is_same_broker) or self._was_lost_recently(outcome.broker_id)
            if self._lost and self._endpoint(outcome.broker_id) is not None:
                self._changed.set()  # else again when the address may be known
            await self._watch_controller(outcome)
            return
        self._other = None
        self.controller = ControlLoop(self._session, self._identity, outcome, self._policy, self._predecessor)
        self._on_term(True)
        try:
            await self.controller.run()
        finally:
            self.controller = None
            self._on_term(False)
            if self._session.connected:
                await asyncio.shield(_resign_quietly(self._session, outcome))

    def _was_lost_recently(self, broker_id: int) -> bool:
        """Whether a connection from this broker ended before it was known to be the controller; true once for each."""
        ended_at = self._connection_ended_at.pop(broker_id, None)
        return ended_at is not None and time.monotonic() - ended_at < RECENT_S

    async def _claim(self) -> ControllerTerm | OtherController:
        """Win /controller if it is free, or if its holder is dead for sure."""
        now_ms = int(time.time() * 1000)
        silent, self._silent = self._silent, False
        self._predecessor = None
        other = self._other
        endpoint = self._endpoint(other.broker_id) if self._lost and other is not None else None
        if endpoint is not None and other is not None:  # else the loss is looked at when its address is known
            self._lost = False
            if (await probe(endpoint, self._identity)).refused:
                logger.info("controller is dead broker=%d epoch=%d", other.broker_id, other.epoch)
                self._predecessor = Predecessor(other.broker_id, silent=False)
                return await take_over(self._session, self._identity.broker_id, now_ms, dead=other)
        if (
            silent
            and other is not None
            and await is_unreachable_to_most(self._session, self._identity, other.broker_id)
        ):
            logger.warning("controller is silent and replaced broker=%d epoch=%d", other.broker_id, other.epoch)
            self._predecessor = Predecessor(other.broker_id, silent=True)
            return await take_over(self._session, self._identity.broker_id, now_ms, dead=other)
        return await elect(self._session, self._identity.broker_id, now_ms)

    async def _watch_controller(self, controller: OtherController) -> None:
        """Wait until /controller changes, or its broker may have failed."""
        endpoint = self._endpoint(controller.broker_id)
        if endpoint is None:  # this broker has not heard of it yet
            try:
                async with asyncio.timeout(ENDPOINT_RETRY_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            return
        watch = ControllerWatch(self._identity, endpoint, self._controller_silent, self._policy.silence_max_s)
        try:
            await self._changed.wait()
        finally:
            await watch.close()


async def _resign_quietly(session: ZkSession, term: ControllerTerm) -> None:
    try:
        await resign(session, term)
    except OttlaError as error:
        logger.info("controller could not resign error=%s", error)
