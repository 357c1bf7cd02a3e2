"""The tasks behind a producer: sender.py sends, and what takes a while is done here, one task of a kind at a time.

Everything here runs on the event loop. ``wake`` may be called from any thread.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.sending.background_loop import BackgroundTasks
from ottla.client.producing.sending.sender import Sender
from ottla.client.producing.sending.sequences import Sequences
from ottla.net.channel import Channel
from ottla.wire.errors import OttlaError
from ottla.wire.requests import InitProducerIdRequest, InitProducerIdResponse

_abandoned: "set[SendLoop]" = set()
"""Those that only their own task refers to, which is not enough for them to live."""


class SendLoop:
    """Sends what the accumulator holds. Owns the background tasks until ``stop``."""

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._sequences = Sequences() if config.idempotent else None
        self._sender = Sender(config, cluster, accumulator, self._sequences, self)
        self._completion = self._sender.completion
        self.wake = self._sender.wake
        self.wake_here = self._sender.wake_here
        self._background = BackgroundTasks(self.wake_here)
        self._loop = asyncio.get_running_loop()

    # --- for the producer --------------------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        while self._accumulator.full and not self._completion.closed:
            room = self._completion.room()
            self.wake_here()
            await room

    @property
    def failed_records(self) -> int:
        """How many records have failed so far."""
        return self._completion.failed_records

    def tell_failures(self) -> None:
        """Tell now of the failures that nobody asked about."""
        self._completion.untold.tell()

    def with_last_error(self, text: str) -> str:
        """A sentence on what took too long, with what went wrong last."""
        return self._completion.with_last_error(text)

    async def flush(self) -> None:
        """Send what there is now without lingering, and wait until all of it is done; what is added later may wait."""
        self._sender.flushing += 1
        self.wake_here()
        try:
            for batch in self._accumulator.unfinished():
                if not batch.done:
                    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    batch.when_done(partial(_settle, done))
                    await done
        finally:
            self._sender.flushing -= 1

    def abandon(self) -> None:
        """Nobody has the producer any more: deliver what it was given, then close. From any thread, and without waiting."""
        try:
            self._loop.call_soon_threadsafe(self._background.run, "abandoned", self._close_alone)
        except RuntimeError:
            pass  # the event loop is closed, and with it all that ran there

    async def _close_alone(self) -> None:
        _abandoned.add(self)
        try:
            await self.flush()
            self._sender.stop()
            await self._cluster.close()
        finally:
            _abandoned.discard(self)

    def stop(self) -> None:
        """Fail what is still waiting. What is in flight fails when its connection is closed."""
        self._background.stop()
        self._sender.stop()

    # --- for the sender: what takes a while, in the background -------------------------------------------------------

    def refresh_metadata(self) -> None:
        self._background.run("refresh", self._refresh)

    def init_producer_id(self) -> None:
        self._background.run("producer id", self._init_producer_id)

    def connect(self, leader: int) -> None:
        self._background.run(("connect", leader), partial(self._connect, leader))

    def drain(self, channel: Channel, drained: Callable[[], None]) -> None:
        """``drained`` is called when the socket has taken what was sent."""
        self._background.run(("drain", object()), partial(self._drain, channel, drained))

    def disconnect(self, channel: Channel) -> None:
        self._background.run(("close", channel), channel.close)

    async def _init_producer_id(self) -> None:
        assert self._sequences is not None
        try:
            answer = await self._cluster.ask_any(InitProducerIdRequest(), InitProducerIdResponse)
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            raise
        self._sequences.begin(answer.producer_id, answer.producer_epoch)

    async def _refresh(self) -> None:
        known = {where: self._cluster.leader(where) for where in self._accumulator.waiting()}
        try:
            await self._cluster.refresh()
        except OttlaError:
            await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)
            return
        for where, leader in known.items():
            if self._cluster.leader(where) not in (None, leader):
                self._accumulator.hurry(where)  # a new leader: whatever waited for the old one may go now
        self._sender.disconnect_replaced()
        self.wake_here()
        await asyncio.sleep(self._completion.next_refresh_s())

    async def _connect(self, leader: int) -> None:
        try:
            await self._cluster.channel(leader)
        except OttlaError:
            await self._refresh()  # which waits a little, too

    async def _drain(self, channel: Channel, drained: Callable[[], None]) -> None:
        try:
            await channel.writable()
        finally:
            drained()


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
