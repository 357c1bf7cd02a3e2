"""Where partitions begin and end, which offset was the first at a time, and how far reading is behind."""

from collections.abc import Iterable, Mapping

from ottla.client.cluster import Cluster
from ottla.client.consuming.inbox import Inbox
from ottla.client.consuming.places import Place, place_of, places_of
from ottla.client.consuming.subscription import UNKNOWN, Subscription
from ottla.client.offsets import Lag, ask_lag, list_offsets
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

DEFAULT_TIMEOUT_S = 30.0


class OffsetLookups:
    """A part of the consumer: it asks the cluster, and knows where reading stands."""

    _cluster: Cluster
    _subscription: Subscription
    _inbox: Inbox

    async def beginning_offsets(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return await self._ends(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: Place | Iterable[Place], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return await self._ends(partitions, LATEST, timeout)

    async def offsets_for_times(
        self, times_ms: Mapping[Place, int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """The first offset at or after a time, with its timestamp; None where all records are older."""
        found = await self._lookup({place_of(where): time for where, time in times_ms.items()}, timeout)
        return {where: pair if pair[0] >= 0 else None for where, pair in found.items()}

    async def lag(self, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, Lag]:
        """How far reading is behind, of each partition that is being read: in records, and in seconds.

        That is how many records are yet to be given, and how old the first of them is.
        """
        return await ask_lag(self._cluster, self._positions(), timeout)

    def _positions(self) -> dict[TopicPartition, int]:
        """Where reading stands; in the thread that reads."""
        assigned = dict(self._subscription.assigned)
        positions = {where: self._inbox.position(state) for where, state in assigned.items()}
        return {where: at for where, at in positions.items() if at != UNKNOWN}

    async def _ends(self, partitions: Place | Iterable[Place], which: int, timeout: float) -> dict[TopicPartition, int]:
        found = await self._lookup(dict.fromkeys(places_of([partitions]), which), timeout)
        return {where: offset for where, (offset, _) in found.items()}

    async def _lookup(
        self, wanted: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        for topic in {where.topic: None for where in wanted}:
            await self._cluster.topic(topic, timeout)
        return await list_offsets(self._cluster, wanted, timeout)
