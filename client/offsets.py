"""Asking leaders for offsets: the earliest, the latest, or the first at or after a time."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import cast

from ottla.client.cluster import Cluster
from ottla.wire.errors import LeaderNotAvailable
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ListOffsetsPart, ListOffsetsRequest, ListOffsetsResponse

Found = tuple[int, int]
"""An offset and its record's timestamp; -1 and -1 where there is none."""


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, Found]:
    """For each partition the offset for a timestamp (or EARLIEST, LATEST); retried until ``timeout_s`` is over."""
    found: dict[TopicPartition, Found] = {}

    async def attempt() -> dict[TopicPartition, Found]:
        missing = {where: timestamp for where, timestamp in wanted.items() if where not in found}
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in missing:
            cluster.watched.add(where.topic)
            leader = cluster.leader(where)
            if leader is None:
                raise LeaderNotAvailable(f"{where} has no leader", topic=where.topic, partition=where.partition)
            by_leader[leader].append(where)
        for answer in await asyncio.gather(*(ask(leader, group, missing) for leader, group in by_leader.items())):
            for part in answer.parts:
                part.raise_if_failed(topic=part.topic, partition=part.partition)
                found[TopicPartition(part.topic, part.partition)] = (part.offset, part.timestamp_ms)
        return found

    async def ask(
        leader: int, group: list[TopicPartition], timestamps: Mapping[TopicPartition, int]
    ) -> ListOffsetsResponse:
        channel = await cluster.channel(leader)
        parts = [ListOffsetsPart(where.topic, where.partition, timestamps[where]) for where in group]
        return cast(ListOffsetsResponse, (await channel.request(ListOffsetsRequest(parts), timeout_s)).message)

    if not wanted:
        return {}
    return await cluster.retry(attempt, timeout_s, "offsets were not found")
