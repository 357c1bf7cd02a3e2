"""The orders that wait for one broker: in their order, but deletions of whole topics wait for all others, and are merged."""

import asyncio
from collections import deque

import msgspec

from ottla.wire.control import LeaderAndIsrRequest, Order, StopReplicaRequest, UpdateMetadataRequest

ORDERS_MAX = 1_000
PARTS_MAX = 200_000
"""So many orders, with so many partitions and topics in all, may wait for a broker that takes none, as one that is paused."""

DELETIONS_AT_ONCE = 64
"""Logs that are deleted by one order: an order that comes later waits for so many."""

Obeyed = asyncio.Future[bool]


class WaitingOrders:
    """A queue for one reader. Each order comes with futures that are set once it is known whether the broker obeyed.

    Invariant: all but patient deletions leave in the order in which they came. A deletion may wait because nothing else is sent
    about a topic that is being deleted, and a later topic of the same name has another id.
    """

    def __init__(self) -> None:
        self._orders: deque[tuple[Order, Obeyed]] = deque()
        self._deletions: deque[tuple[StopReplicaRequest, Obeyed]] = deque()
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

    async def get(self) -> tuple[Order, list[Obeyed]]:
        """The next order, with the futures of all that it stands for; waits if there is none."""
        while not self._orders and not self._deletions:
            self._some.clear()
            await self._some.wait()
        if self._orders:
            order, obeyed = self._orders.popleft()
            self._parts -= _parts(order)
            return order, [obeyed]
        return self._merged_deletions()

    def _merged_deletions(self) -> tuple[Order, list[Obeyed]]:
        first, obeyed = self._deletions.popleft()
        parts, waiting = list(first.parts), [obeyed]
        while self._deletions and len(parts) + len(self._deletions[0][0].parts) <= DELETIONS_AT_ONCE:
            order, obeyed = self._deletions.popleft()
            parts += order.parts
            waiting.append(obeyed)
        return msgspec.structs.replace(first, parts=parts), waiting

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
