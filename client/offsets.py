"""Asking leaders for offsets: the earliest, the latest, or the first at or after a time."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from ottla.client.cluster import Cluster
from ottla.wire.errors import LeaderNotAvailable, OttlaError, UnknownTopicOrPartition
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
        some, failures = await ask_offsets(cluster, missing, cluster.attempt_s(timeout_s))
        found.update(some)
        for error in failures.values():
            raise error
        return found

    return await cluster.retry(attempt, timeout_s, "offsets were not found")


async def ask_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], timeout_s: float
) -> tuple[dict[TopicPartition, Found], dict[TopicPartition, OttlaError]]:
    """Ask every leader once: what was found, and what went wrong. A broker that is gone fails its partitions only."""
    found: dict[TopicPartition, Found] = {}
    failures: dict[TopicPartition, OttlaError] = {}
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for where in wanted:
        cluster.watched.add(where.topic)
        leader = cluster.leader(where)
        if leader is None:
            failures[where] = why_no_leader(cluster, where)
        else:
            by_leader[leader].append(where)

    async def ask(leader: int, group: list[TopicPartition]) -> None:
        parts = [ListOffsetsPart(*where, wanted[where], cluster.leader_epoch(where)) for where in group]
        try:
            channel = await cluster.channel(leader)
            answer = await cluster.ask_while(
                lambda: all(cluster.leader(where) == leader for where in group),
                channel, ListOffsetsRequest(parts), ListOffsetsResponse, timeout_s,
            )  # fmt: skip
        except OttlaError as error:
            failures.update(dict.fromkeys(group, error))
            return
        for where, part in zip(group, answer.parts, strict=True):
            if part.error_code:
                failures[where] = part.error(topic=where.topic, partition=where.partition)
            else:
                found[where] = (part.offset, part.timestamp_ms)

    await asyncio.gather(*(ask(leader, group) for leader, group in by_leader.items()))
    return found, failures


def why_no_leader(cluster: Cluster, where: TopicPartition) -> OttlaError:
    topic = cluster.topics.get(where.topic)
    if topic is None:
        return UnknownTopicOrPartition(f"topic {where.topic!r} does not exist", topic=where.topic)
    if where.partition >= len(topic.partitions) or where.partition < 0:
        text = f"there is no partition {where}; topic {where.topic!r} has {len(topic.partitions)}"
        return UnknownTopicOrPartition(text, topic=where.topic, partition=where.partition)
    return LeaderNotAvailable(f"{where} has no leader", topic=where.topic, partition=where.partition)
