"""Orders that wait for a broker: in their order, bounded, and deletions after all others."""

import asyncio

import pytest

from ottla.broker.controller import waiting_orders
from ottla.broker.controller.waiting_orders import WaitingOrders
from ottla.wire.control import StopReplicaPart, StopReplicaRequest, UpdateMetadataRequest


def deletion(topic: str, partitions: int = 4) -> StopReplicaRequest:
    return StopReplicaRequest(
        1, 1, 5, [StopReplicaPart(topic, f"id of {topic}", n, 1, True) for n in range(partitions)]
    )


def metadata(version: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(1, 1, 5, False, [], [], [], [], version)


def obeyed() -> asyncio.Future[bool]:
    return asyncio.get_running_loop().create_future()


async def test_deletions_wait_for_all_other_orders_and_are_sent_together() -> None:
    orders = WaitingOrders()
    futures = [obeyed() for _ in range(20)]
    for number, future in enumerate(futures):
        orders.put_deletion(deletion(f"t{number}"), future)
    orders.put(metadata(1), obeyed())
    orders.put(metadata(2), obeyed())
    assert [(await orders.get())[0] for _ in range(2)] == [metadata(1), metadata(2)]
    first, waiting, _ = await orders.get()
    assert isinstance(first, StopReplicaRequest)
    assert waiting == futures[:16]
    assert first.parts == [part for number in range(16) for part in deletion(f"t{number}").parts]
    orders.put(metadata(3), obeyed())  # comes between two lots
    assert (await orders.get())[0] == metadata(3)
    assert (await orders.get())[1] == futures[16:]


async def test_a_deletion_that_is_longer_than_a_lot_is_sent_alone() -> None:
    orders = WaitingOrders()
    orders.put_deletion(deletion("long", 100), obeyed())
    orders.put_deletion(deletion("short"), obeyed())
    assert (await orders.get())[0] == deletion("long", 100)
    assert (await orders.get())[0] == deletion("short")


async def test_orders_are_bounded_by_their_number_and_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_orders, "ORDERS_MAX", 3)
    monkeypatch.setattr(waiting_orders, "PARTS_MAX", 10)
    orders = WaitingOrders()
    for version in range(3):
        assert not orders.is_full
        orders.put(metadata(version), obeyed())
    assert orders.is_full
    orders.forget()
    assert not orders.is_full
    assert len(orders) == 0
    stop = StopReplicaRequest(1, 1, 5, deletion("t", 9).parts)
    orders.put(stop, obeyed())
    assert orders.is_full
    await orders.get()
    assert not orders.is_full  # however large one order is, it can be sent
    assert len(orders) == 0


async def test_orders_that_are_forgotten_were_not_obeyed() -> None:
    orders = WaitingOrders()
    futures = [obeyed(), obeyed()]
    orders.put(metadata(1), futures[0])
    orders.put_deletion(deletion("t"), futures[1])
    orders.forget()
    assert [future.result() for future in futures] == [False, False]
