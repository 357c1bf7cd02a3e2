"""Producers that write while a cluster suffers: idempotent, acks=all, each a thread with habits and counters of its own."""

import itertools
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.chaos.foreign_clients import ForeignProducer, Told, open_producer
from ottla.chaos.history import Send
from ottla.chaos.schedule import REQUEST_TIMEOUT_S
from ottla.chaos.threads import WatchedThread
from ottla.client import Producer
from ottla.client.producing.delivery import ManyDelivery, RecordDelivery
from ottla.client.records import RecordMetadata
from ottla.wire.batch import Codec
from ottla.wire.errors import InvalidRecord, MessageTooLarge, OttlaError, RecordListTooLarge

KEYS = 12
"""All producers share them: enough that every partition has some, and that all must agree on where each belongs."""

IN_FLIGHT = 32
"""Records of one key under way. A partition that stands still stops its own keys and no others."""

CERTAIN = (MessageTooLarge, RecordListTooLarge, InvalidRecord)
"""Errors after which a record is not stored, for certain: no broker has ever appended it."""

REST_S = 0.005
"""A producer that is ahead of its pace by this, or has no room, rests."""

LOOK_EVERY_MS = 1000
"""How often producers ask who leads, whatever else happens."""


class Habits(NamedTuple):
    """How one producer sends."""

    codec: str = "none"
    delivery_timeout_ms: int = 90_000
    many: int = 1
    """This many records with one call; 1 is ``send``, which alone can take headers."""
    linger_ms: float = 0


PATIENT_MS, HASTY_MS = 90_000, 1_000
"""Hasty producers give batches up in almost any fault; what they send next must still stand behind what they sent before."""

VARIED = tuple(
    Habits(codec.name.lower(), HASTY_MS if number % 2 else PATIENT_MS, 1 if number % 3 else 5, number % 2 * 2.0)
    for number, codec in enumerate(Codec)
)
"""One producer for each codec; among them some are hasty, some linger, and some send lists."""

FOREIGN = tuple(Habits(codec.name.lower(), linger_ms=number % 2 * 2.0) for number, codec in enumerate(Codec))
"""The same for Kafka's clients: patient, for what they do in a hurry is theirs to answer for, and one by one."""


class Workload:
    """Producers on one topic until ``stop``. ``rate`` is the most records a second that each sends; None: as many as it can.

    with Workload("127.0.0.1:9092", topic) as load:
        load.wait_for_acks(500)
    load.sends
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        producers: int = 3,
        rate: float | None = None,
        habits: Sequence[Habits] = (Habits(),),
        client: str = "ottla",
        **options: Any,
    ) -> None:
        """``client`` names whose producers they are: ours, or one of Kafka's own (foreign_clients.py)."""
        self.topic = topic
        self._client = client
        self._bootstrap = bootstrap
        self.sends: list[Send] = []
        self._rate = rate
        self._options = {
            "bootstrap_servers": bootstrap,
            "acks": "all",
            "receipts": True,
            "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
            "metadata_max_age_ms": LOOK_EVERY_MS,
            **options,
        }
        self._acks = itertools.count()
        self._acked = 0
        self._acked_of: dict[int, int] = {}
        self._stop = threading.Event()
        self._patience_s: float | None = None
        self.threads = [
            WatchedThread(f"producer {number}", partial(self._run, one))
            for number, one in enumerate(itertools.islice(itertools.cycle(habits), producers))
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # something has failed: what is under way does not matter any more
            self._patience_s = 0.5
            self.finish()

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Send nothing more, and hear about everything that was sent."""
        self.finish()
        self._raise_failure()

    def finish(self) -> None:
        """As ``stop``; what ended a producer too early stays with its thread."""
        self._stop.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    @property
    def acked(self) -> int:
        return self._acked

    def acked_of(self, partition: int) -> int:
        """How many records of one partition are acknowledged."""
        return self._acked_of.get(partition, 0)

    @property
    def failed(self) -> bool:
        """Whether a producer ended that should have gone on."""
        return any(thread.error is not None for thread in self.threads)

    def _raise_failure(self) -> None:
        for thread in self.threads:
            if thread.error is not None:
                raise thread.error

    def wait_for_acks(self, more: int = 100, timeout_s: float = 60.0) -> None:
        """Progress: so many records are acknowledged from now on."""
        wanted = self._acked + more
        deadline = time.monotonic() + timeout_s
        while self._acked < wanted and not self.failed:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._acked} acknowledged after {timeout_s:g} s, not {wanted}")
            time.sleep(0.02)
        self._raise_failure()

    # --- a producer's thread -------------------------------------------------------------------------------------------

    def _run(self, habits: Habits) -> None:
        producer = self._open(habits)
        try:
            self._send_until_stopped(producer, habits)
        finally:
            producer.close(self._patience_s)

    def _open(self, habits: Habits) -> Producer | ForeignProducer:
        if self._client != "ottla":
            return open_producer(self._client, self._bootstrap, habits.codec, habits.linger_ms)
        settings = {
            "compression_type": habits.codec,
            "delivery_timeout_ms": habits.delivery_timeout_ms,
            "linger_ms": habits.linger_ms,
            **self._options,
        }
        return Producer(**settings)

    def _send_until_stopped(self, producer: Producer | ForeignProducer, habits: Habits) -> None:
        name = uuid.uuid4().hex[:6]
        rooms = {f"k{key}": threading.Semaphore(IN_FLIGHT) for key in range(KEYS)}
        counters = dict.fromkeys(rooms, 0)
        keys = itertools.cycle(rooms)
        next_at = time.monotonic()
        timeout_s = habits.delivery_timeout_ms / 1000 if isinstance(producer, Producer) else 0.0
        while not self._stop.is_set():
            free = list(itertools.islice(self._with_room(keys, rooms), habits.many))
            if not free:
                self._stop.wait(REST_S)
                continue
            now = time.monotonic()
            sends = []
            for key in free:
                sends.append(Send(name, counters[key], now, key, delivery_timeout_s=timeout_s))
                counters[key] += 1
            self._send(producer, sends, rooms, habits)
            if self._rate is not None:
                # Time lost while the cluster stood still is not made up for.
                next_at = max(next_at + len(sends) / self._rate, time.monotonic() - REST_S)
                if (early := next_at - time.monotonic()) > REST_S:
                    self._stop.wait(early)

    @staticmethod
    def _with_room(keys: Iterator[str], rooms: dict[str, threading.Semaphore]) -> Iterator[str]:
        """Keys that may send one more, whose room is taken; each is asked once."""
        for key in itertools.islice(keys, KEYS):
            if rooms[key].acquire(blocking=False):
                yield key

    def _send(
        self,
        producer: Producer | ForeignProducer,
        sends: list[Send],
        rooms: dict[str, threading.Semaphore],
        habits: Habits,
    ) -> None:
        self.sends += sends

        def told(delivered: RecordDelivery | ManyDelivery | Told) -> None:
            now, error = time.monotonic(), delivered.exception()
            if error is None:
                found = delivered.result()
                places = [found] if isinstance(found, RecordMetadata) else found
                for send, where in zip(sends, places, strict=True):
                    self._acknowledged(send, where, now)
            for send in sends:
                # Of a list of which some failed, nobody tells which.
                if isinstance(error, CERTAIN) and len(sends) == 1:
                    send.refused(now, type(error).__name__)
                elif error is not None:
                    send.unheard(now, type(error).__name__)
                rooms[send.key].release()

        try:
            self._hand_over(producer, sends, habits).add_callback(told)
        except OttlaError as error:
            for send in sends:  # they were not even queued
                send.refused(time.monotonic(), type(error).__name__)
                rooms[send.key].release()

    def _hand_over(
        self, producer: Producer | ForeignProducer, sends: list[Send], habits: Habits
    ) -> RecordDelivery | ManyDelivery | Told:
        stamp = time.time_ns() // 1_000_000
        if not isinstance(producer, Producer):
            return self._hand_over_to_foreign(producer, sends, stamp)
        if habits.many > 1:
            for send in sends:
                send.timestamp = stamp
            values, keys = [send.value for send in sends], [send.key.encode() for send in sends]
            return producer.send_many(self.topic, values, keys=keys, timestamp_ms=stamp)
        [send] = sends
        if send.number % 2:  # every other one leaves all to the producer
            return producer.send(self.topic, send.value, key=send.key.encode())
        send.timestamp = stamp - send.number  # not in the order of the offsets
        send.headers = (("number", str(send.number).encode()), ("empty", b""), ("none", None))
        return producer.send(
            self.topic, send.value, key=send.key.encode(), headers=send.headers, timestamp_ms=send.timestamp
        )

    def _hand_over_to_foreign(self, producer: ForeignProducer, sends: list[Send], stamp: int) -> Told:
        [send] = sends
        if not send.number % 2:
            send.timestamp = stamp - send.number
            send.headers = (("number", str(send.number).encode()), ("empty", b""))
        return producer.send(self.topic, send.value, send.key.encode(), send.headers, send.timestamp)

    def _acknowledged(self, send: Send, where: RecordMetadata, now: float) -> None:
        send.acknowledged(where.partition, where.offset if where.offset >= 0 else None, now, where.receipt)
        if send.timestamp is None:
            send.timestamp = where.timestamp
        self._acked = next(self._acks) + 1
        self._acked_of[where.partition] = self._acked_of.get(where.partition, 0) + 1
