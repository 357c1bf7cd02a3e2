"""Compares this broker's wall clock with ZooKeeper's and the controller's, for whatever deletes data by age.

A clock that is some days ahead makes every record look expired. So nothing expires by age unless a fresh comparison says
that the local clock is within SKEW_MAX_MS of both others.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from ottla.broker.metrics import Metrics
from ottla.wire.errors import OttlaError
from ottla.zk.clocks import ClockReading, read_clock, write_clock
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

SKEW_MAX_MS = 60_000
"""Clocks that are further apart than this are not trusted."""

COMPARE_S = 30.0
"""How often each broker writes its clock, so that others can compare theirs with it while it is the controller."""

FRESH_S = 5.0
"""How long a comparison counts."""

CONTROLLER_AGE_MAX_MS = 300_000
"""A reading of the controller that is older than this, by ZooKeeper's clock, says nothing."""


UNKNOWN = "not compared yet"
"""Nothing is known against the clock, nor for it: nothing expires, and nobody has to be warned."""


def clock_error(own: ClockReading, controller: ClockReading | None) -> str:
    """Why the local clock is not trusted; empty if it is. Pure."""
    if abs(own.skew_ms) > SKEW_MAX_MS:
        return f"it is {own.skew_ms / 1000:+.0f} s from ZooKeeper's"
    if controller is None or own.zookeeper_ms - controller.zookeeper_ms > CONTROLLER_AGE_MAX_MS:
        return UNKNOWN
    if abs(own.skew_ms - controller.skew_ms) > SKEW_MAX_MS:
        return f"it is {(own.skew_ms - controller.skew_ms) / 1000:+.0f} s from the controller's"
    return ""


class ClockLoop:
    """Owns a task that compares the clocks regularly, from ``start`` to ``stop``."""

    def __init__(self, session: ZkSession, broker_id: int, controller_id: Callable[[], int], metrics: Metrics) -> None:
        self._session = session
        self._broker_id = broker_id
        self._controller_id = controller_id
        self._metrics = metrics
        self._error = UNKNOWN
        self._compared_at = float("-inf")
        self._compared_ms = 0
        self._comparing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="clock")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def now_ms(self) -> int | None:
        """The time of day by which data may expire; None while the local clock is not trusted.

        Counted from the last comparison by the monotonic clock, so that setting the clock between two comparisons has no
        effect.
        """
        async with self._comparing:
            if time.monotonic() - self._compared_at > FRESH_S:
                await self._compare()
            if self._error:
                return None
            return self._compared_ms + int((time.monotonic() - self._compared_at) * 1000)

    async def _run(self) -> None:
        while True:
            try:
                await self.now_ms()
            except Exception:
                logger.exception("comparing clocks failed")
            await asyncio.sleep(COMPARE_S)

    async def _compare(self) -> None:
        compared_at, now_ms = time.monotonic(), int(time.time() * 1000)
        try:
            own = await write_clock(self._session, self._broker_id, now_ms)
            controller_id = self._controller_id()
            controller = own if controller_id == self._broker_id else await read_clock(self._session, controller_id)
        except OttlaError as error:
            logger.info("clock not compared error=%s", error)
            self._error, self._compared_at = UNKNOWN, float("-inf")
            return
        self._metrics.clock_skew.labels("zookeeper").set(own.skew_ms / 1000)
        if controller is not None:
            self._metrics.clock_skew.labels("controller").set((own.skew_ms - controller.skew_ms) / 1000)
        self._note(clock_error(own, controller))
        if self._error != UNKNOWN:
            self._compared_at, self._compared_ms = compared_at, now_ms

    def _note(self, error: str) -> None:
        if error not in ("", UNKNOWN) and self._error in ("", UNKNOWN):
            logger.warning(
                "clock not trusted, nothing expires by age until it is right: broker=%d %s", self._broker_id, error
            )
        elif not error and self._error:
            logger.info("clock trusted broker=%d", self._broker_id)
        self._error = error
