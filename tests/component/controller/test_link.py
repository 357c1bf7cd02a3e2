"""The controller's link to a broker: orders in their order, and none that stands in the way of the others for ever."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ottla.broker.controller import link_loop, waiting_orders
from ottla.broker.controller.link_loop import Link, LinkEvents
from ottla.broker.peers import Identity
from ottla.net.exchange import Answer
from ottla.wire.control import ControlRequest, StopReplicaPart, StopReplicaRequest, UpdateMetadataRequest
from ottla.wire.errors import BrokerNotAvailable, OttlaError, UnknownServerError
from ottla.wire.messages import BrokerEndpoint, Done
from ottla.wire.native import encode_request
from ottla.wire.requests import ApiVersionsRequest
from tests.support.machine import scaled

TO = BrokerEndpoint(2, "broker", 9092, None)


class FakeChannel:
    """Hears orders, as long as they can be sent; ``errors`` are what it answers to the next ones."""

    usable = True

    def __init__(self) -> None:
        self.heard: list[ControlRequest] = []
        self.errors: list[OttlaError] = []

    async def request(self, request: Any, timeout_s: float) -> Answer:
        if not isinstance(request, ApiVersionsRequest):
            encode_request(request, 1, "controller")
            if self.errors:
                raise self.errors.pop(0)
            self.heard.append(request)
        return Answer(Done(), [])

    async def closed_within(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        pass


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> FakeChannel:
    made = FakeChannel()

    async def connect(*args: object) -> FakeChannel:
        return made

    monkeypatch.setattr(link_loop, "connect_as_broker", connect)
    return made


@pytest.fixture
async def link(channel: FakeChannel) -> AsyncIterator[Link]:
    made = make_link(lambda *behind: None)
    yield made
    await made.close()


def make_link(on_behind: Callable[[int, int], None]) -> Link:
    events = LinkEvents(lambda evidence: None, lambda broker: None, lambda *failed: None, on_behind)
    return Link(Identity(1, 1, "c", ""), TO, 5, events, silence_max_s=2.0)


def stop(count: int) -> StopReplicaRequest:
    return StopReplicaRequest(1, 1, 5, [StopReplicaPart("x" * 249, "id", number, 1, True) for number in range(count)])


async def obeyed(*orders: asyncio.Future[bool]) -> list[bool]:
    async with asyncio.timeout(scaled(5)):
        return list(await asyncio.gather(*orders))


async def test_an_order_that_cannot_be_sent_is_dropped_and_those_behind_it_are_told(
    link: Link, channel: FakeChannel, caplog: pytest.LogCaptureFixture
) -> None:
    endless = BrokerEndpoint(3, "x" * 5_000_000, 9092, None)
    impossible = UpdateMetadataRequest(1, 1, 5, False, [endless], [], [], [])
    assert await obeyed(link.tell(impossible), link.tell(stop(1))) == [False, True]
    assert channel.heard == [stop(1)]
    assert "an order cannot be sent" in caplog.text


async def test_a_long_order_goes_in_pieces_and_is_obeyed_when_the_last_one_is(link: Link, channel: FakeChannel) -> None:
    channel.errors = [BrokerNotAvailable("not yet")]
    long = stop(20_000)
    first = link.tell(long)
    last = link.tell(stop(1))
    assert await obeyed(first, last) == [True, True]
    parts = [part for order in channel.heard[:-1] if isinstance(order, StopReplicaRequest) for part in order.parts]
    assert len(channel.heard) > 3
    assert parts == long.parts
    assert channel.heard[-1] == stop(1)


async def test_an_order_whose_answer_breaks_the_link_does_not_end_it(
    link: Link, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ends by itself would leave the broker without orders for ever, and nobody would know."""
    deliver = link._deliver
    monkeypatch.setattr(link, "_deliver", lambda order: 1 / 0)
    assert await obeyed(link.tell(stop(1))) == [False]
    monkeypatch.setattr(link, "_deliver", deliver)
    assert await obeyed(link.tell(stop(2))) == [True]


async def test_orders_to_a_broker_that_takes_none_are_bounded_and_it_is_told_anew(
    channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_orders, "ORDERS_MAX", 3)
    asleep, awake = asyncio.Event(), asyncio.Event()
    hear = channel.request

    async def sleep(request: Any, timeout_s: float) -> Answer:
        asleep.set()
        await awake.wait()
        return await hear(request, timeout_s)

    monkeypatch.setattr(channel, "request", sleep)
    behind: list[tuple[int, int]] = []
    link = make_link(lambda *which: behind.append(which))
    try:
        first = link.tell(stop(1))
        await asyncio.wait_for(asleep.wait(), 5)  # it stands before the broker
        dropped = [link.tell(stop(2)) for _ in range(5)]
        assert behind == [(TO.id, 5)]
        assert await obeyed(*dropped) == [False] * 5
        link.begin_anew()
        told_anew = link.tell(stop(3))
        awake.set()
        assert await obeyed(first, told_anew) == [True, True]
        assert channel.heard == [stop(1), stop(3)]
    finally:
        await link.close()


async def test_deletion_that_a_broker_cannot_carry_out_keeps_no_other_order_waiting(
    link: Link, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: with one data folder on a disk that had become read-only, no order reached the broker any more."""
    monkeypatch.setattr(waiting_orders, "DELETION_RETRY_S", 0.01, raising=False)
    broken, whole = deletion("broken"), deletion("whole")
    hear = channel.request
    is_mended = False

    async def refuse(request: Any, timeout_s: float) -> Answer:
        if isinstance(request, StopReplicaRequest) and broken.parts[0] in request.parts and not is_mended:
            raise UnknownServerError("the folder cannot be renamed")
        return await hear(request, timeout_s)

    monkeypatch.setattr(channel, "request", refuse)
    waiting = link.tell(broken, is_patient=True)
    merged = link.tell(whole, is_patient=True)
    assert await obeyed(merged, link.tell(stop(1))) == [True, True]
    assert not waiting.done()
    is_mended = True
    assert await obeyed(waiting) == [True]


def deletion(topic: str) -> StopReplicaRequest:
    return StopReplicaRequest(1, 1, 5, [StopReplicaPart(topic, "id", 0, 1, True)])
