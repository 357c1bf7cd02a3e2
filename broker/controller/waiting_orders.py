"""The orders that wait for one broker: in their order, but deletions of whole topics wait for all others, and are merged."""

import asyncio
import time
from collections import deque
from typing import NamedTuple

import msgspec

from ottla.wire.control import LeaderAndIsrRequest, Order, StopReplicaRequest, UpdateMetadataRequest

ORDERS_MAX = 1_000
PARTS_MAX = 200_000
"""So many orders, with so many partitions and topics in all, may wait for a broker that takes none, as one that is paused."""

DELETIONS_AT_ONCE = 64
"""Logs that are deleted by one order: an order that comes later waits for so many."""

DELETION_RETRY_S = 0.5
"""When deletions go on after the broker could not carry one out."""

Obeyed = asyncio.Future[bool]


class NextOrder(NamedTuple):
    """What is sent next: with the futures of all orders that it stands for, and the patient deletions that are merged in it."""

    order: Order
    waiting: list[Obeyed]
    deletions: list[tuple[StopReplicaRequest, Obeyed]]


class WaitingOrders:
    """A queue for one reader. Each order comes with futures that are set once it is known whether the broker obeyed.

    Invariant: all but patient deletions leave in the order in which they came. A deletion may wait because nothing else is sent
    about a topic that is being deleted, and a later topic of the same name has another id.
    """

    def __init__(self) -> None:
        self._orders: deque[tuple[Order, Obeyed]] = deque()
        self._deletions: deque[tuple[StopReplicaRequest, Obeyed]] = deque()
        self._merges = True
        self._deletions_after_s = float("-inf")
        self._parts = 0
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._orders) + len(self._deletions)

    @property
    def is_full(self) -> bool:
        """Whether more wait than should; deletions do not count, for each topic is deleted once."""
        return len(self._orders) >= ORDERS_MAX or (bool(self._orders) and self._parts >= PARTS_MAX)

    def put(self, order: Order, obeyed: Obeyed) -> None:
        self._orders.append((order, obeyed))
        self._parts += _parts(order)
        self._some.set()

    def put_deletion(self, order: StopReplicaRequest, obeyed: Obeyed) -> None:
        """A deletion that may wait for all other orders."""
        self._deletions.append((order, obeyed))
        self._some.set()

    def put_back(self, deletions: "list[tuple[StopReplicaRequest, Obeyed]]") -> None:
        """Deletions that the broker could not carry out now: all others go first, and from now on each goes alone."""
        self._merges = False
        self._deletions_after_s = time.monotonic() + DELETION_RETRY_S
        self._deletions.extend(deletions)

    async def get(self) -> "NextOrder":
        """The next order; waits if there is none."""
        while not self._orders and not (self._deletions and time.monotonic() >= self._deletions_after_s):
            self._some.clear()
            wait_s = max(0.0, self._deletions_after_s - time.monotonic()) if self._deletions else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._some.wait()
            except TimeoutError:
                pass
        if self._orders:
            order, obeyed = self._orders.popleft()
            self._parts -= _parts(order)
            return NextOrder(order, [obeyed], [])
        return self._merged_deletions()

    def _merged_deletions(self) -> "NextOrder":
        merged = [self._deletions.popleft()]
        parts = list(merged[0][0].parts)
        while self._merges and self._deletions and len(parts) + len(self._deletions[0][0].parts) <= DELETIONS_AT_ONCE:
            merged.append(self._deletions.popleft())
            parts += merged[-1][0].parts
        order = msgspec.structs.replace(merged[0][0], parts=parts)
        return NextOrder(order, [obeyed for _, obeyed in merged], merged)

    def forget(self) -> None:
        """None of these is sent any more."""
        for _, obeyed in (*self._orders, *self._deletions):
            settle(obeyed, False)
        self._orders.clear()
        self._deletions.clear()
        self._parts = 0


def settle(obeyed: Obeyed, how: bool) -> None:
    """Say whether an order was obeyed, unless that is known."""
    if not obeyed.done():
        obeyed.set_result(how)


def _parts(order: Order) -> int:
    if isinstance(order, LeaderAndIsrRequest | UpdateMetadataRequest):
        return 1 + len(order.partitions) + len(order.topics)
    return 1 + len(order.parts)
