"""Where partitions begin and end, and which offset was the first at a time, as a consumer is asked for it."""

from collections.abc import Iterable, Mapping

from ottla.client.cluster import Cluster
from ottla.client.offsets import list_offsets
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

DEFAULT_TIMEOUT_S = 30.0


class OffsetLookups:
    """A part of the consumer: it needs the cluster, and nothing of what is being read."""

    _cluster: Cluster

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return {k: v[0] for k, v in (await self._lookup(dict.fromkeys(partitions, EARLIEST), timeout)).items()}

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return {k: v[0] for k, v in (await self._lookup(dict.fromkeys(partitions, LATEST), timeout)).items()}

    async def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """The first offset at or after a time, with its timestamp; None where all records are older."""
        found = await self._lookup(times_ms, timeout)
        return {where: pair if pair[0] >= 0 else None for where, pair in found.items()}

    async def _lookup(
        self, wanted: Mapping[tuple[str, int], int], timeout: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        for topic, _ in wanted:
            await self._cluster.topic(topic, timeout)
        return await list_offsets(
            self._cluster, {TopicPartition(*where): time for where, time in wanted.items()}, timeout
        )
