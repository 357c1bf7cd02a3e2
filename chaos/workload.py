"""Producers that write while a cluster suffers: idempotent, acks=all, each a thread with keys and counters of its own."""

import itertools
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Self

from ottla.chaos.history import Send
from ottla.chaos.schedule import REQUEST_TIMEOUT_S
from ottla.client import Producer
from ottla.client.delivery import RecordDelivery
from ottla.wire.errors import InvalidRecord, MessageTooLarge, OttlaError, RecordListTooLarge

KEYS = 12
"""Of each producer: enough that every partition has some."""

IN_FLIGHT = 16
"""Records of one key under way. A partition that stands still stops its own keys and no others."""

CERTAIN = (MessageTooLarge, RecordListTooLarge, InvalidRecord)
"""Errors after which a record is not stored, for certain: no broker has ever appended it."""

REST_S = 0.005
"""A producer that is ahead of its pace by this, or has no room, rests."""


class Workload:
    """Producers on one topic until ``stop``. ``rate`` is the most records a second that each sends; None: as many as it can.

    with Workload("127.0.0.1:9092", topic) as load:
        load.wait_for_acks(500)
    load.sends
    """

    def __init__(
        self, bootstrap: str, topic: str, producers: int = 3, rate: float | None = None, **options: Any
    ) -> None:
        self.topic = topic
        self.sends: list[Send] = []
        self._rate = rate
        self._options = {
            "bootstrap_servers": bootstrap,
            "acks": "all",
            "receipts": True,
            "delivery_timeout_ms": 90_000,
            "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
            **options,
        }
        self._acks = itertools.count()
        self._acked = 0
        self._acked_of: dict[int, int] = {}
        self._stop = threading.Event()
        self._patience_s: float | None = None
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(uuid.uuid4().hex[:6],), name=f"producer {number}")
            for number in range(producers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # something has failed: what is under way does not matter any more
            self._patience_s = 0.5
            self._join()

    def stop(self) -> None:
        """Send nothing more, and hear about everything that was sent."""
        self._join()
        if self._failures:
            raise self._failures[0]

    def _join(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def acked(self) -> int:
        return self._acked

    def acked_of(self, partition: int) -> int:
        """How many records of one partition are acknowledged."""
        return self._acked_of.get(partition, 0)

    @property
    def failures(self) -> list[BaseException]:
        """What ended a producer that should have gone on."""
        return self._failures

    def wait_for_acks(self, more: int = 100, timeout_s: float = 60.0) -> None:
        """Progress: so many records are acknowledged from now on."""
        wanted = self._acked + more
        deadline = time.monotonic() + timeout_s
        while self._acked < wanted and not self._failures:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._acked} acknowledged after {timeout_s:g} s, not {wanted}")
            time.sleep(0.02)
        if self._failures:
            raise self._failures[0]

    # --- a producer's thread -------------------------------------------------------------------------------------------

    def _run(self, name: str) -> None:
        try:
            producer = Producer(**self._options)
            try:
                self._send_until_stopped(producer, name)
            finally:
                producer.close(self._patience_s)
        except BaseException as failure:
            self._failures.append(failure)

    def _send_until_stopped(self, producer: Producer, name: str) -> None:
        rooms = {f"{name}k{key}": threading.Semaphore(IN_FLIGHT) for key in range(KEYS)}
        counters = dict.fromkeys(rooms, 0)
        keys = itertools.cycle(rooms)
        next_at = time.monotonic()
        full = 0
        while not self._stop.is_set():
            key = next(keys)
            if not rooms[key].acquire(blocking=False):
                full += 1
                if full >= KEYS:
                    self._stop.wait(REST_S)
                    full = 0
                continue
            full = 0
            self._send(producer, Send(name, counters[key], time.monotonic(), key), rooms[key])
            counters[key] += 1
            if self._rate is not None:
                # Time lost while the cluster stood still is not made up for.
                next_at = max(next_at + 1 / self._rate, time.monotonic() - REST_S)
                if (early := next_at - time.monotonic()) > REST_S:
                    self._stop.wait(early)

    def _send(self, producer: Producer, send: Send, room: threading.Semaphore) -> None:
        self.sends.append(send)
        try:
            delivery = producer.send(self.topic, send.value, key=send.key.encode())
        except OttlaError as error:
            send.refused(time.monotonic(), type(error).__name__)  # it was not even queued
            room.release()
            return

        def told(delivered: RecordDelivery) -> None:
            now, error = time.monotonic(), delivered.exception()
            if error is None:
                where = delivered.result()
                offset = where.offset if where.offset >= 0 else None
                send.acknowledged(where.partition, offset, now, where.receipt)
                self._acked = next(self._acks) + 1
                self._acked_of[where.partition] = self._acked_of.get(where.partition, 0) + 1
            elif isinstance(error, CERTAIN):
                send.refused(now, type(error).__name__)
            else:
                send.unheard(now, type(error).__name__)
            room.release()

        delivery.add_callback(told)
