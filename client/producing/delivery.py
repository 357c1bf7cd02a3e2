"""The futures that sending gives back, for callers that block and for callers that await."""

import asyncio
import concurrent.futures
import itertools
import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from ottla.client.config import OnDelivery
from ottla.client.loop_thread import is_loop_thread, refuse_on_loop_thread
from ottla.client.producing.batches import ProducerBatch
from ottla.client.records import RecordMetadata, SentRecords
from ottla.wire.errors import ClientTimeout, OttlaError

R = TypeVar("R")

logger = logging.getLogger(__name__)


def _let_out(error: BaseException) -> None:
    """SystemExit or KeyboardInterrupt out of a callback: it ends whom it is meant for, but not in the middle of our work."""
    if is_loop_thread():  # which is nobody's to end, and whose end would end nothing else
        logger.error("a delivery callback tried to end the client's own thread", exc_info=error)
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None  # called at once, in the thread of whoever added the callback
    loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error


def tell_one(batch: ProducerBatch, index: int, on_delivery: OnDelivery) -> None:
    """Tell what became of one record of a batch that is done."""
    error, where = batch.fate(index)
    try:
        on_delivery(error, where)
    except Exception:  # the next one's delivery must not suffer for it
        logger.exception("a delivery callback failed")
    except BaseException as raised:  # neither for this
        _let_out(raised)


def tell_each(batch: ProducerBatch, on_delivery: OnDelivery) -> None:
    """Tell what became of all records of a batch that is done."""
    for index in range(len(batch)):
        tell_one(batch, index, on_delivery)


def _not_yet(batch: ProducerBatch | None, timeout: float | None) -> ClientTimeout:
    """Somebody waited for a delivery as long as he would; the batch is tried on."""
    if batch is None:  # it came just now
        return ClientTimeout(f"not delivered within {timeout:g} s")
    why = f": {batch.last_error}" if batch.last_error is not None else ""
    text = f"not delivered to {batch.where} within {timeout:g} s{why}"
    return ClientTimeout(text, topic=batch.where.topic, partition=batch.where.partition)


def _settle(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


class Delivery(Generic[R]):
    """Something on its way. Ask ``done()``, or be told with ``add_done_callback``.

    It is no ``Future``: to make one takes as long as all the rest of sending a record. ``future()`` makes one where needed.
    """

    __slots__ = ()

    def _batches(self) -> Sequence[ProducerBatch]:
        raise NotImplementedError

    def _outcome(self) -> R:
        raise NotImplementedError

    def _asked(self) -> None:
        """Somebody wants to know what became of it: then nobody else has to be told."""
        raise NotImplementedError

    def __repr__(self) -> str:
        batches = self._batches()
        where = ", ".join(dict.fromkeys(str(batch.where) for batch in batches)) or "nowhere"
        failed = next((batch.error for batch in batches if batch.error is not None), None)
        state = f"failed: {failed!r}" if failed is not None else "delivered" if self.done() else "on its way"
        return f"<{type(self).__name__} to {where}, {state}>"

    def done(self) -> bool:
        return all(batch.done for batch in self._batches())

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(self)`` when done, on the client's own thread (here, when done already); it must not block."""
        batches = self._batches()
        finished = itertools.count(1)  # two threads may be at it, and next() of a count happens at once

        def one_done() -> None:
            if next(finished) < len(batches):
                return
            self._asked()
            try:
                callback(self)
            except Exception:  # the next one's delivery must not suffer for it
                logger.exception("a delivery callback failed")
            except BaseException as error:  # neither for this
                _let_out(error)

        for batch in batches:
            batch.when_done(one_done)
        if not batches:
            one_done()

    add_callback = add_done_callback


class BlockingDelivery(Delivery[R]):
    """Waits in the calling thread."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> R:
        """Wait until delivered and tell where to; raises what kept it from being delivered."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        for batch in self._batches():
            if not batch.done:
                refuse_on_loop_thread()
                arrived = threading.Event()
                batch.when_done(arrived.set)
                try:
                    arrived.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
                finally:
                    batch.forget_waiter(arrived.set)
                if not arrived.is_set():
                    raise _not_yet(batch, timeout)
        return self._outcome()

    def future(self) -> "concurrent.futures.Future[R]":
        """A future for ``concurrent.futures.wait`` and its like. It cannot be cancelled: what is sent is sent."""
        future: concurrent.futures.Future[R] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def settle(_: object) -> None:
            try:
                outcome = self._outcome()
            except OttlaError as error:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        self.add_done_callback(settle)
        return future

    def __await__(self) -> Generator[Any, None, R]:
        """For code that has an event loop although its producer has none."""
        return asyncio.wrap_future(self.future()).__await__()

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        """What went wrong, None if nothing did; waits like ``result``."""
        try:
            self.result(timeout)
        except OttlaError as error:
            if not self.done():
                raise
            return error
        return None


class AwaitedDelivery(Delivery[R]):
    """Waits on the event loop: ``await delivery``, or ``await delivery.result(timeout=...)``.

    ``asyncio.gather``, ``wait_for`` and ``as_completed`` take it as it is; for ``asyncio.wait`` there is ``future()``.
    """

    __slots__ = ()

    def future(self) -> "asyncio.Future[R]":
        """A future for ``asyncio.wait`` and its like; cancelling it only ends the waiting: what is sent is sent."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def settle(_: object) -> None:
            if future.done():
                return
            try:
                outcome = self._outcome()
            except OttlaError as error:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        self.add_done_callback(settle)
        return future

    def __await__(self) -> Generator[Any, None, R]:
        for batch in self._batches():
            if not batch.done:
                arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                waiter = partial(_settle, arrived)
                batch.when_done(waiter)
                try:
                    yield from arrived
                finally:
                    batch.forget_waiter(waiter)
        return self._outcome()

    async def result(self, timeout: float | None = None) -> R:
        try:
            async with asyncio.timeout(timeout) as timer:
                return await self
        except TimeoutError:
            if not timer.expired():  # it is the delivery's own time that was over
                raise
            late = next((batch for batch in self._batches() if not batch.done), None)
            raise _not_yet(late, timeout) from None


class _OneRecord(Delivery[RecordMetadata], msgspec.Struct, gc=False, eq=False):
    """A struct because one is made for every record sent: that is four times as fast as an ordinary object."""

    _batch: ProducerBatch
    _index: int

    def _batches(self) -> Sequence[ProducerBatch]:
        return (self._batch,)

    def _outcome(self) -> RecordMetadata:
        return self._batch.metadata(self._index)

    def _asked(self) -> None:
        self._batch.asked(self._index)


class _ManyRecords(Delivery[SentRecords]):
    __slots__ = ("_count", "_pieces")

    def __init__(self, count: int, pieces: list[tuple[Sequence[int], ProducerBatch]]) -> None:
        self._count = count
        self._pieces = pieces

    def _batches(self) -> Sequence[ProducerBatch]:
        return [batch for _, batch in self._pieces]

    def _asked(self) -> None:
        for _, batch in self._pieces:
            batch.asked_all()

    def _outcome(self) -> SentRecords:
        self._asked()
        for _, batch in self._pieces:
            batch.raise_error()
        return SentRecords(self._count, self._pieces)


class RecordDelivery(_OneRecord, BlockingDelivery[RecordMetadata], gc=False, eq=False):
    """One record on its way."""


class ManyDelivery(_ManyRecords, BlockingDelivery[SentRecords]):
    """The records of a send_many on their way."""

    __slots__ = ()


class AsyncRecordDelivery(_OneRecord, AwaitedDelivery[RecordMetadata], gc=False, eq=False):
    """One record on its way."""


class AsyncManyDelivery(_ManyRecords, AwaitedDelivery[SentRecords]):
    """The records of a send_many on their way."""

    __slots__ = ()
