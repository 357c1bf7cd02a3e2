"""Slots of long requests: who waits has none, nobody waits for those that wait, and nothing stays of a client that hangs up."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.chaos.fuzz.schemas import FETCH
from ottla.net import long_requests as module
from ottla.net.long_requests import IN_HAND_MAX, LongRequests, long_requests
from ottla.net.server import Server
from tests.component.api.served import HERE, THERE, Served, append, with_partitions
from tests.component.api.test_long_requests import DELETE_RECORDS, LIST_OFFSETS, Client, fetch_of, server
from tests.support.machine import scaled
from tests.support.waiting import eventually

__all__ = ["server"]


def deletion(count: int = 3_000, offset: int = 1) -> dict[str, Any]:
    """Of records that another replica must note, and never does."""
    parts = [{"partition_index": 0, "offset": offset}] * count
    return {"topics": [{"name": "t", "partitions": parts}], "timeout_ms": 300_000}


def search(count: int = 600) -> dict[str, Any]:
    parts = [{"partition_index": 0, "timestamp": -1}] * count
    return {"replica_id": -1, "topics": [{"name": "t", "partitions": parts}]}


@pytest.fixture
def clients(server: tuple[Server, int]) -> Iterator[list[Client]]:
    found = [Client(server[1]) for _ in range(IN_HAND_MAX + 1)]
    yield found
    for one in found:
        hang_up(one)


def hang_up(client: Client) -> None:
    with contextlib.suppress(OSError):
        client.socket.shutdown(socket.SHUT_RDWR)
    client.socket.close()


async def with_a_silent_follower(served: Served) -> None:
    await served.decide()
    append(served, 0)
    await served.decide(epoch=1, isr=(HERE, THERE), replicas=(HERE, THERE))


async def is_over() -> None:
    """Nothing is left of any long request."""
    every = long_requests()
    await eventually(lambda: (every.in_hand, every.body_bytes, every.object_bytes) == (0, 0, 0))


async def test_nobody_waits_for_deletions_that_wait_for_replicas(served: Served, clients: list[Client]) -> None:
    await with_a_silent_follower(served)
    for one in clients[:IN_HAND_MAX]:
        await asyncio.to_thread(one.send, DELETE_RECORDS, 1, deletion())
    every = long_requests()
    await eventually(lambda: every.object_bytes > 0 and every.in_hand == 0)
    async with asyncio.timeout(scaled(10)):
        found = await clients[-1].ask(LIST_OFFSETS, 1, search())
    assert len(found.topics[0].partitions) == 600
    assert every.object_bytes > 0, "what waits is still counted"
    for one in clients:
        hang_up(one)
    await is_over()


async def test_deletion_waits_no_more_for_a_client_that_has_hung_up(
    served: Served, server: tuple[Server, int], clients: list[Client]
) -> None:
    await with_a_silent_follower(served)
    before = asyncio.all_tasks()
    await asyncio.to_thread(clients[0].send, DELETE_RECORDS, 1, deletion())
    await eventually(lambda: len(asyncio.all_tasks() - before) > 0 and long_requests().in_hand == 0)
    for one in clients:
        hang_up(one)
    await eventually(lambda: not server[0].connections)
    await is_over()
    await eventually(lambda: not asyncio.all_tasks() - before)


async def test_what_a_task_holds_is_counted_until_it_ends_though_its_client_has_gone(
    served: Served, server: tuple[Server, int], clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that goes on in its middle keeps its slot: hanging up is no way to have more of them."""
    await with_partitions(served, 1)
    go_on = asyncio.Event()

    async def rest(_: object) -> None:
        await go_on.wait()

    monkeypatch.setattr("ottla.broker.api.slices.Slices.rest", rest)
    for one in clients[:IN_HAND_MAX]:
        await asyncio.to_thread(one.send, DELETE_RECORDS, 1, deletion(offset=0))
    every = long_requests()
    await eventually(lambda: every.in_hand == IN_HAND_MAX)
    for one in clients:
        hang_up(one)
    await eventually(lambda: not server[0].connections)
    await asyncio.sleep(0.05)
    assert every.in_hand == IN_HAND_MAX
    assert every.object_bytes > 0
    go_on.set()
    await is_over()


async def test_no_request_keeps_its_slot_for_long(
    served: Served, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it does: a commit may wait for ZooKeeper."""
    await with_partitions(served, 1)
    monkeypatch.setattr(module, "SLOT_S", 0.05)
    go_on = asyncio.Event()

    async def rest(_: object) -> None:
        await go_on.wait()

    monkeypatch.setattr("ottla.broker.api.slices.Slices.rest", rest)
    asked = [asyncio.ensure_future(one.ask(DELETE_RECORDS, 1, deletion(offset=0))) for one in clients]
    every = long_requests()
    elements = 3_001 * len(clients)
    await eventually(lambda: every.object_bytes == elements * module.ELEMENT_BYTES and every.in_hand == 0)
    go_on.set()
    assert {len(found.topics[0].partitions) for found in await asyncio.gather(*asked)} == {3_000}
    await is_over()


async def test_fetches_that_wait_for_records_have_no_slot(served: Served, clients: list[Client]) -> None:
    await with_partitions(served, 1)
    asked = [asyncio.ensure_future(one.ask(FETCH, 4, fetch_of([0] * 2_500, wait_ms=60_000))) for one in clients[1:]]
    every = long_requests()
    weight = 2_501 * module.ELEMENT_BYTES * len(asked)
    await eventually(lambda: every.object_bytes == weight and every.in_hand == 0)
    await clients[0].ask(LIST_OFFSETS, 1, search())
    assert every.object_bytes == weight, "all of them still wait"
    append(served, 0)
    for found in await asyncio.gather(*asked):
        assert any(part.records for part in found.responses[0].partitions)
    await is_over()


async def test_long_request_behind_a_waiting_one_has_no_slot(served: Served, clients: list[Client]) -> None:
    """It is read once the answers before it have left, for its own answer could not leave sooner."""
    await with_partitions(served, 1)

    def pipeline(one: Client) -> list[Any]:
        return one.exchange((FETCH, 4, fetch_of([0], wait_ms=60_000)), (LIST_OFFSETS, 1, search()))

    asked = [asyncio.ensure_future(asyncio.to_thread(pipeline, one)) for one in clients[1:]]
    every = long_requests()
    await eventually(lambda: every.body_bytes > 600 * 12 * len(asked))
    assert (every.in_hand, every.object_bytes) == (0, 0)
    await clients[0].ask(LIST_OFFSETS, 1, search())
    append(served, 0)
    for fetched, searched in await asyncio.gather(*asked):
        assert fetched.responses[0].partitions[0].records
        assert len(searched.topics[0].partitions) == 600
    await is_over()


async def test_too_many_bytes_of_long_requests_cost_their_sender_alone(
    served: Served, server: tuple[Server, int], clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_a_silent_follower(served)
    monkeypatch.setattr(module, "BODIES_OF_IP_MAX", 3 * 3_100 * 12)
    for one in clients[:3]:
        await asyncio.to_thread(one.send, DELETE_RECORDS, 1, deletion())
    await eventually(lambda: long_requests().body_bytes > 2 * 3_000 * 12)
    with pytest.raises((OSError, struct.error)):  # it is hung up on, while it sends or afterwards
        await clients[3].ask(DELETE_RECORDS, 1, deletion(9_000))
    assert server[0].refused == 1
    assert server[0].pool.in_use == 0, "half-received frames have a limit of their own"
    await clients[4].ask(LIST_OFFSETS, 1, search(100))
    for one in clients:
        hang_up(one)
    await is_over()


async def test_nothing_waits_when_memory_is_short(
    served: Served, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits is answered, so that others can be read."""
    await with_a_silent_follower(served)
    monkeypatch.setattr(module, "CROWDED", 5_000 * module.ELEMENT_BYTES)
    async with asyncio.timeout(scaled(20)):
        asked = [asyncio.ensure_future(one.ask(DELETE_RECORDS, 1, deletion())) for one in clients[:5]]
        done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while len(waiting) > 1:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= more
    told = {part.error_code for asked_one in done for part in (await asked_one).topics[0].partitions}
    assert told == {7}
    for one in clients:
        hang_up(one)
    for left in waiting:
        with contextlib.suppress(Exception):
            await left
    await is_over()


@pytest.mark.parametrize("phase", ["queued", "read", "waiting", "looking", "behind", "leaving"])
async def test_nothing_is_in_hand_after_clients_have_hung_up(
    served: Served, server: tuple[Server, int], clients: list[Client], monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """In whichever phase they were: each slot is given back once, and those that come afterwards are served."""
    await with_partitions(served, 1)
    every = long_requests()
    monkeypatch.setattr("ottla.broker.api.long_fetch.LOOK_AGAIN_S", 0.001)
    if phase == "looking":
        monkeypatch.setattr("ottla.broker.api.slices.SLICE_S", 0.0)
    for one in clients:
        if phase == "behind":
            await asyncio.to_thread(one.send, FETCH, 4, fetch_of([0], wait_ms=60_000))
        elif phase == "leaving":
            await asyncio.to_thread(one.send, LIST_OFFSETS, 1, search(100_000))
        await asyncio.to_thread(one.send, FETCH, 4, fetch_of([0] * 2_500, wait_ms=60_000))
        if phase in ("queued", "read"):
            await asyncio.sleep(0)
    if phase in ("waiting", "looking"):
        await eventually(lambda: every.object_bytes > 0)
    elif phase != "queued":
        await eventually(lambda: every.body_bytes > 0)
    for one in clients:
        hang_up(one)
    await eventually(lambda: not server[0].connections)
    await is_over()
    late = Client(server[1])
    await late.ask(LIST_OFFSETS, 1, search())
    await is_over()
    hang_up(late)


async def test_addresses_take_turns_and_so_do_those_to_be_read_and_those_that_go_on() -> None:
    every = LongRequests()
    order: list[str] = []

    def one(ip: str) -> module.InHand:
        found = every.arrived(ip, 1, lambda: pytest.fail("not read here"), lambda request, why: None)
        found.start = lambda: order.append(ip)
        return found

    every.in_hand = IN_HAND_MAX
    for ip in ["a", "a", "a", "b"]:
        every.wait_to_read(one(ip))
    every.wait_to_go_on(one("fetch"))
    every.wait_to_go_on(one("fetch"))
    for _ in range(6):
        every.take_back_slot()
    assert [ip for ip in order if ip != "fetch"] == ["a", "b", "a", "a"]
    assert "fetch" in order[:2]
    assert order.index("b") < 4
