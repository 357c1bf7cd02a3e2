"""A producer's sending half, whole, on a simulated clock and network: nothing waits, and one seed gives one story.

Real are the accumulator, all of client/producing/sending but its tasks, the batches' bytes, and what the broker remembers of
producers.
Two simulated brokers share the logs; one of them leads each partition.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ottla.broker.storage.producers.states import ProducerStates
from ottla.client.config import ProducerConfig
from ottla.client.producing.accumulator import Accumulator
from ottla.client.producing.batches import ProducerBatch
from ottla.client.producing.sending.sender import Sender
from ottla.client.producing.sending.sequences import Sequences
from ottla.net.exchange import Answer
from ottla.wire.errors import (
    ClientClosed,
    InvalidRecord,
    MessageTooLarge,
    NetworkException,
    NotLeaderOrFollower,
    OttlaError,
    RequestTimedOut,
    UnknownProducerId,
)
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch
from ottla.wire.requests import ProducePartResult, ProduceRequest, ProduceResponse

TOPIC = "t"


class Timer:
    def __init__(self, at: float, call: Callable[[], object]) -> None:
        self.at, self.call, self.cancelled = at, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Time, and the part of an event loop that the sender uses."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[Timer] = []
        self._soon: deque[Callable[[], object]] = deque()

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(self.now + delay, lambda: call(*args))
        self._timers.append(timer)
        return timer

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        self._soon.append(lambda: call(*args))

    call_soon_threadsafe = call_soon

    def run_soon(self) -> None:
        while self._soon:
            self._soon.popleft()()

    def advance(self, seconds: float) -> None:
        """Go on so far, or to the next timer, whichever comes first."""
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        self.now = min([self.now + seconds, *(max(timer.at, self.now) for timer in self._timers)])
        due = [timer for timer in self._timers if timer.at <= self.now]
        self._timers = [timer for timer in self._timers if timer.at > self.now]
        for timer in due:
            if not timer.cancelled:
                timer.call()
        self.run_soon()

    @contextmanager
    def installed(self) -> Iterator[None]:
        with (
            mock.patch("asyncio.get_running_loop", return_value=self),
            mock.patch("time.monotonic", self._time),
        ):
            yield

    def _time(self) -> float:
        return self.now


class SharedLog:
    """A partition: its records in order, and what it remembers of producers."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.states = ProducerStates()
        self.leader, self.leader_epoch = 0, 0
        self._known: set[tuple[int, int]] = set()

    def forget(self) -> None:
        """Retention took all records, and with them what they told of producers. (The values stay here, for the check.)"""
        self._known |= {(producer_id, epoch) for producer_id, epoch, _ in self.states.dump()}
        self.states = ProducerStates()

    def append(self, batch: RecordBatch) -> int:
        header = batch.header
        if header.producer_id >= 0:
            known = any(producer_id == header.producer_id for producer_id, _, _ in self.states.dump())
            if not known and (header.producer_id, header.producer_epoch) in self._known:
                raise UnknownProducerId("forgotten")
            repeated = self.states.check(header, may_have_forgotten=False)
            if repeated is not None:
                return repeated.first_offset
        offset = len(self.values)
        self.values += [value or b"" for value in batch.values()]
        if header.producer_id >= 0:
            self.states.note(header, offset)
        return offset


class Connection:
    """A client's connection to one broker: requests wait to be read, answers wait to be received."""

    def __init__(self, broker: int, world: "World") -> None:
        self.broker = broker
        self.address = f"broker{broker}:1"
        self._number = world.connections_made
        world.connections_made += 1
        self.usable = True
        self.requests: deque[tuple[ProduceRequest, list[Any], Callable[[Any], None]]] = deque()
        self.answers: deque[tuple[ProduceResponse, Callable[[Any], None]]] = deque()
        self._world = world

    def __str__(self) -> str:
        """The order in which the story finds it among others: one seed gives one story."""
        return f"connection {self._number:06}"

    def call(self, request: ProduceRequest, receiver: Callable[[Any], None], attachments: list[Any]) -> None:
        self.requests.append((request, [bytes(each) for each in attachments], receiver))

    def send_unanswered(self, request: ProduceRequest, attachments: list[Any]) -> None:
        """acks=0: the broker reads it at once, and hangs up where it does not lead."""
        answer = self._world.produce(self.broker, request, [bytes(each) for each in attachments])
        if any(part.error_code for part in answer.parts):
            self.usable = False

    def read_one(self) -> None:
        request, attachments, receiver = self.requests.popleft()
        self.answers.append((self._world.produce(self.broker, request, attachments), receiver))

    def answer_one(self) -> None:
        response, receiver = self.answers.popleft()
        receiver(Answer(response, []))

    def break_off(self, error: OttlaError, read_first: int) -> None:
        """The broker may still read some of what it was sent; the client hears of none of it."""
        if not self.usable:
            return
        self.usable = False
        told = [receiver for _, receiver in self.answers] + [receiver for *_, receiver in self.requests]
        for _ in range(min(read_first, len(self.requests))):
            self.read_one()
        for receiver in told:
            receiver(error)


class World:
    """The cluster as the client knows it, the background of its send loop, and the brokers behind it all."""

    def __init__(self, seed: int, partitions: int = 2, batch_max: int = 10_000, **options: Any) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.logs = {TopicPartition(TOPIC, number): SharedLog() for number in range(partitions)}
        self.topics = {TOPIC: None}
        self.stale = False
        self.believed = {where: (log.leader, log.leader_epoch) for where, log in self.logs.items()}
        self.connections: dict[int, Connection] = {}
        self.asked_for: set[object] = set()
        self.connections_made = 0
        self.refuse: Callable[[TopicPartition], OttlaError | None] = lambda where: None
        self._batch_max = batch_max
        self._ids = 0
        settings = {"delivery_timeout_ms": 2000, "request_timeout_ms": 500, "retry_backoff_ms": 20, **options}
        self.config = ProducerConfig(**settings)
        self.accumulator = Accumulator(
            self.config.batch_size, self.config.buffer_memory, self.config.max_request_size,
            self.config.delivery_timeout_ms / 1000,
        )  # fmt: skip
        self.sequences = Sequences() if self.config.idempotent else None
        with self.clock.installed():
            self.sender = Sender(self.config, self, self.accumulator, self.sequences, self)  # type: ignore[arg-type]

    # --- the cluster, for the sender ---

    def leader(self, where: TopicPartition) -> int | None:
        return self.believed[where][0]

    def learn_leader(self, where: TopicPartition, leader: int, leader_epoch: int, topic_id: str = "id") -> bool:
        if topic_id != "id" or leader_epoch <= self.believed[where][1]:
            return False
        self.believed[where] = (leader, leader_epoch)
        return True

    def open_channel(self, broker: int) -> Connection | None:
        connection = self.connections.get(broker)
        return connection if connection is not None and connection.usable else None

    def only_hung_up(self, error: OttlaError) -> bool:
        return isinstance(error, ClientClosed)

    def suspect(self, address: str) -> None:
        pass

    def tried(self) -> str:
        return "tried"

    def with_tried(self, text: str) -> str:
        return f"{text}; {self.tried()}"

    # --- the background: remembered, and done when the story says so ---

    def refresh_metadata(self) -> None:
        self.asked_for.add("leaders")

    def init_producer_id(self) -> None:
        self.asked_for.add("producer id")

    def connect(self, leader: int) -> None:
        self.asked_for.add(leader)

    def disconnect(self, channel: Connection) -> None:
        self.asked_for.add(channel)

    def drain(self, channel: Connection, drained: Callable[[], None]) -> None:
        drained()

    def run_background(self) -> None:
        task = self.random.choice(sorted(self.asked_for, key=str))
        self.asked_for.remove(task)
        if task == "leaders":
            for where, log in self.logs.items():
                self.learn_leader(where, log.leader, log.leader_epoch)
            self.sender.disconnect_replaced()
        elif task == "producer id":
            if self.sequences is not None and not self.sequences.ready:
                self._ids += 1
                self.sequences.begin(self._ids, 0)
        elif isinstance(task, Connection):
            task.break_off(ClientClosed("hung up"), self.random.randint(0, 5))
        elif isinstance(task, int) and self.open_channel(task) is None:
            self.connections[task] = Connection(task, self)
        self.sender.wake_here()

    # --- the brokers ---

    def produce(self, broker: int, request: ProduceRequest, attachments: list[bytes]) -> ProduceResponse:
        parts = []
        for part, records in zip(request.parts, attachments, strict=True):
            where = TopicPartition(part.topic, part.partition)
            log = self.logs[where]
            topic_id = ""
            try:
                if log.leader != broker:
                    topic_id = "id"  # a leader is named only before anything is written
                    raise NotLeaderOrFollower("another leads")
                if len(records) > self._batch_max:
                    raise MessageTooLarge("too large")
                error = self.refuse(where)
                if error is not None and not isinstance(error, RequestTimedOut):
                    raise error
                offset = log.append(RecordBatch(records))
                if error is not None:
                    raise error
                parts.append(ProducePartResult(0, "", part.topic, part.partition, base_offset=offset))
            except OttlaError as error:
                parts.append(
                    ProducePartResult(
                        error.code,
                        str(error),
                        part.topic,
                        part.partition,
                        leader=log.leader,
                        leader_epoch=log.leader_epoch,
                        topic_id=topic_id,
                    )
                )
        return ProduceResponse(parts)

    # --- the story ---

    def send(self, partition: int, value: bytes) -> tuple[ProducerBatch, int]:
        where = TopicPartition(TOPIC, partition)
        sent = self.accumulator.add(where, None, value, None, 0, self.clock.now)
        self.sender.wake_here()
        return sent

    def busy(self) -> list[Connection]:
        return [each for each in self.connections.values() if each.usable and (each.requests or each.answers)]

    def step(self) -> None:
        """One thing happens, by chance."""
        draw = self.random.random()
        busy = self.busy()
        if draw < 0.30 and busy:
            connection = self.random.choice(busy)
            if connection.requests and (not connection.answers or self.random.random() < 0.5):
                connection.read_one()
            else:
                connection.answer_one()
        elif draw < 0.36 and busy:
            self.random.choice(busy).break_off(NetworkException("lost"), self.random.randint(0, 3))
        elif draw < 0.40:
            log = self.random.choice(list(self.logs.values()))
            log.leader, log.leader_epoch = 1 - log.leader, log.leader_epoch + 1
        elif draw < 0.60 and self.asked_for:
            self.run_background()
        else:
            self.clock.advance(self.random.choice([0.001, 0.01, 0.1, 0.5]))
        self.clock.run_soon()

    def calm_down(self) -> None:
        """Nothing goes wrong any more, until everything is done."""
        self.refuse = lambda where: None
        for _ in range(100_000):
            if not self.accumulator.unfinished():
                return
            for connection in self.busy():
                while connection.usable and connection.requests:
                    connection.read_one()
                while connection.usable and connection.answers:
                    connection.answer_one()
            while self.asked_for:
                self.run_background()
            self.clock.advance(0.01)
        raise AssertionError(f"never done: {self.accumulator.unfinished()}")


def refuse_sometimes(world: World, chance: float) -> Callable[[TopicPartition], OttlaError | None]:
    def refuse(where: TopicPartition) -> OttlaError | None:
        if world.random.random() > chance:
            return None
        return world.random.choice([InvalidRecord("bad"), RequestTimedOut("stored, not acknowledged")])

    return refuse
