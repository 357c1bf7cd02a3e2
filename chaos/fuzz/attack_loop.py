"""The attacker: a process that makes one attack after the other, at a bounded rate, and reads what comes back."""

import asyncio
import contextlib
import random
import time
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from ottla.chaos.fuzz.answers import (
    UNFORESEEN,
    Asked,
    Unreadable,
    asked_by,
    error_codes,
    expects_answer,
    frames_of,
    kind_of,
    read_answer,
)
from ottla.chaos.fuzz.attacks import CROWD, Attack, Way, greeting, make_attack
from ottla.chaos.fuzz.requests import World
from ottla.chaos.fuzz.tally import Tally

Address = tuple[str, int]

AT_ONCE: Final = 150
"""Attacks that go on at the same time: some last for seconds."""

ANSWER_S: Final = 1.0
"""How long answers are waited for; requests that wait in the broker may take longer, and are then left."""

CLOSE_S: Final = 15.0
"""A peer that says it is done must be hung up on by then."""

ANSWER_MAX: Final = 64 * 1024 * 1024
HELD_S: Final = 1.0
DRIPS: Final = 200
DRIP_S: Final = 0.004


class Orders(NamedTuple):
    """What the attacker is told: whom to attack from now on; nobody ends it."""

    addresses: list[Address] | None
    real: bool
    """Whether they are brokers, of which something is expected."""


class Plan(NamedTuple):
    seed: int
    rate: float
    topic_ids: dict[str, bytes]
    deadline_s: float
    """When a broker hangs up on a peer that has sent half a frame."""
    largest: bool = False
    """Whether requests are as large as brokers take them."""


def attack(orders: Connection, plan: Plan) -> None:
    """The process: until it is told to end; then it gives back its Tally."""
    asyncio.run(_Attacker(orders, plan).run())


class _Attacker:
    def __init__(self, orders: Connection, plan: Plan) -> None:
        self._orders = orders
        self._plan = plan
        self._tally = Tally()
        self._aside = Tally()  # what the decoy got
        self._room = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        orders: Orders = self._orders.recv()
        tasks: set[asyncio.Task[None]] = set()
        number, due = 0, time.monotonic()
        while orders.addresses is not None:
            world = World(self._plan.topic_ids, time.time_ns() // 1_000_000)
            one = make_attack(self._plan.seed, number, world, largest=self._plan.largest)
            tally = self._tally if orders.real else self._aside
            tally.last_number, number = number, number + 1
            tally.storable.update(one.storable)
            await self._room.acquire()
            task = asyncio.create_task(self._one(one, orders, tally))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due = max(due + 1 / self._plan.rate, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while self._orders.poll():
                orders = self._orders.recv()
        await asyncio.gather(*tasks)
        self._orders.send(self._tally)

    async def _one(self, one: Attack, orders: Orders, tally: Tally) -> None:
        assert orders.addresses is not None
        address = orders.addresses[one.broker % len(orders.addresses)]
        tally.attacks[one.kind] += 1
        tally.frames += len(one.frames)
        try:
            ending = await asyncio.wait_for(self._perform(one, address, tally, orders.real), 60)
        except OSError as error:
            ending = f"connection: {type(error).__name__}"
        except TimeoutError:
            ending = "stuck"
            tally.violate(f"attack {one.number} ({one.kind}): did not end in a minute")
        finally:
            self._room.release()
        tally.answers[ending] += 1

    async def _perform(self, one: Attack, address: Address, tally: Tally, real: bool) -> str:
        if one.way is Way.CROWD:
            return await self._come_in_crowds(one, address)
        reader, writer = await asyncio.open_connection(*address, limit=ANSWER_MAX)
        try:
            sent = (greeting() if one.greets else b"") + b"".join(one.frames)
            if one.way is Way.DRIPPING:
                await _drip(writer, sent)
            else:
                writer.write(sent)
            if one.way is Way.DEAF:
                await asyncio.sleep(HELD_S)
                return "left unread"
            expected = [asked for frame in frames_of(sent) if (asked := asked_by(frame)) and expects_answer(frame)]
            patience_s = self._plan.deadline_s if one.way is Way.SILENT else ANSWER_S
            closed = await _Listener(one, tally, expected).listen(reader, patience_s)
            if closed:
                if one.must_answer and real and expected:
                    tally.violate(f"attack {one.number}: hung up on instead of an answer to {expected[0]}")
                return "closed by the broker"
            if one.way is Way.SILENT:
                if real:
                    tally.violate(f"attack {one.number}: half a frame, and not hung up on in {patience_s:g} s")
                return "still open"
            return await self._say_goodbye(one, reader, writer, tally, waiting=bool(expected))
        finally:
            writer.transport.abort()

    async def _say_goodbye(
        self, one: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tally: Tally, *, waiting: bool
    ) -> str:
        """Nothing more is sent: the broker must hang up, too."""
        with contextlib.suppress(ConnectionError):
            writer.write_eof()
        try:
            async with asyncio.timeout(CLOSE_S):
                while await reader.read(65_536):
                    pass
        except TimeoutError:
            tally.violate(f"attack {one.number} ({one.kind}): not hung up on {CLOSE_S:g} s after it was done")
            return "still open"
        return "left while it waited" if waiting else "answered"

    async def _come_in_crowds(self, one: Attack, address: Address) -> str:
        writers = []
        try:
            for _ in range(CROWD):
                _, writer = await asyncio.open_connection(*address)
                writers.append(writer)
                writer.write(one.frames[0])
            await asyncio.sleep(HELD_S * random.Random(one.number).random())
        finally:
            for writer in writers:
                writer.transport.abort()
        return "left"


async def _drip(writer: asyncio.StreamWriter, sent: bytes) -> None:
    """A byte at a time; a long one in as many pieces as have time."""
    step = max(1, len(sent) // DRIPS)
    for at in range(0, len(sent), step):
        writer.write(sent[at : at + step])
        await asyncio.sleep(DRIP_S)


class _Listener:
    """Reads answers and holds them against what was asked."""

    def __init__(self, one: Attack, tally: Tally, expected: list[Asked]) -> None:
        self._one = one
        self._tally = tally
        self._expected = expected
        """What has not been answered yet."""

    async def listen(self, reader: asyncio.StreamReader, patience_s: float) -> bool:
        """Until all is answered, or for so long; whether the broker has hung up."""
        try:
            async with asyncio.timeout(patience_s):
                while self._expected or self._one.way is Way.SILENT:
                    size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
                    if not 0 < size <= ANSWER_MAX:
                        self._violate(f"an answer of {size} bytes")
                        return True
                    self._heard(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return True
        except TimeoutError:
            pass
        return False

    def _heard(self, answer: bytes) -> None:
        correlation_id = int.from_bytes(answer[:4], "big", signed=True)
        place = next((n for n, one in enumerate(self._expected) if one.correlation_id == correlation_id), None)
        if place is None:
            self._violate(f"an answer to nobody, correlation id {correlation_id}")
            return
        asked = self._expected[place]
        del self._expected[: place + 1]
        try:
            codes = error_codes(read_answer(asked, answer))
        except Unreadable as error:
            self._violate(str(error))
            return
        self._tally.answers[f"answer {kind_of(codes)}"] += 1
        if UNFORESEEN in codes:
            self._violate(f"{asked} was answered with UNKNOWN_SERVER_ERROR")

    def _violate(self, what: str) -> None:
        self._tally.violate(f"attack {self._one.number} ({self._one.kind}): {what}")
