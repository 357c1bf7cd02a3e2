"""Compares this broker's wall clock with ZooKeeper's and the controller's, for whatever expires by time."""

import asyncio
import logging

from ottla.broker.checked_clock import UNKNOWN, CheckedClock
from ottla.broker.metrics import Metrics
from ottla.wire.errors import OttlaError
from ottla.zk.clocks import ClockReading, brokers_with_clocks, read_clock, write_clock
from ottla.zk.election import read_controller
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

COMPARE_S = 30.0
"""How often each broker compares its clock; what it writes then is what the others compare theirs with."""

LOOK_S = 1.0
"""How often it is checked whether the wall clock was set, and how often an unsuccessful comparison is repeated."""

WITNESS_AGE_MAX_MS = 120_000
"""A reading of another broker that is older than this, by ZooKeeper's clock, says nothing."""


class ClockLoop:
    """Owns a task that compares the clocks regularly, from ``start`` to ``stop``."""

    def __init__(self, session: ZkSession, broker_id: int, clock: CheckedClock, metrics: Metrics) -> None:
        self._session = session
        self._broker_id = broker_id
        self._clock = clock
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Compare once, so that what this broker writes bears the right time from the start; then regularly."""
        await self.compare()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="clock")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time() + COMPARE_S
        while True:
            await asyncio.sleep(LOOK_S)
            if loop.time() >= next_s or self._clock.error == UNKNOWN or self._clock.was_set():
                await self.compare()
                next_s = loop.time() + COMPARE_S

    async def compare(self) -> None:
        """Write this broker's time, read the controller's, and update the checked clock with the comparison."""
        before = self._clock.error
        try:
            await self._compare()
        except OttlaError as error:
            logger.debug("clock not compared error=%s", error)
            self._clock.not_compared()
        except Exception:
            logger.exception("comparing clocks failed")
            self._clock.not_compared()
        self._note(before)

    async def _compare(self) -> None:
        at_s, now_ms = self._clock.read()
        own = await write_clock(self._session, self._broker_id, now_ms)
        controller_id = (await read_controller(self._session)).broker_id
        leads = controller_id == self._broker_id
        others = await self._others(own) if leads else []
        witness = next(iter(others), None) if leads else await self._reading_of(controller_id, own)
        self._clock.compared(at_s, own, witness, leads=leads, others=others)
        skew = self._metrics.clock_skew
        skew.labels("zookeeper").set(own.skew_ms / 1000)
        if leads:
            skew.labels("controller").set(0)
        elif witness is not None:
            skew.labels("controller").set((own.skew_ms - witness.skew_ms) / 1000)

    async def _reading_of(self, broker_id: int | None, own: ClockReading) -> ClockReading | None:
        reading = await read_clock(self._session, broker_id) if broker_id is not None else None
        is_old = reading is not None and own.zookeeper_ms - reading.zookeeper_ms > WITNESS_AGE_MAX_MS
        return None if is_old else reading

    async def _others(self, own: ClockReading) -> list[ClockReading]:
        """The recent readings of all other brokers: a controller has no controller to compare its clock with."""
        ids = [broker_id for broker_id in await brokers_with_clocks(self._session) if broker_id != self._broker_id]
        readings = await asyncio.gather(*(self._reading_of(broker_id, own) for broker_id in ids))
        return [reading for reading in readings if reading is not None]

    def _note(self, before: str) -> None:
        error = self._clock.error
        self._metrics.clock_trusted.set(not error)
        if error and error != UNKNOWN and before in ("", UNKNOWN):
            logger.warning(
                "clock not trusted: %s; by time, this broker deletes no segment, group or named write until it is right, see"
                " the clocks of broker, controller and ZooKeeper broker=%d", error, self._broker_id,
            )  # fmt: skip
        elif error == UNKNOWN and not before:
            logger.info("clock not compared of late, nothing expires by time broker=%d", self._broker_id)
        elif not error and before:
            logger.info("clock trusted broker=%d", self._broker_id)
