"""Asking leaders for offsets: the earliest, the latest, or the first at or after a time; and how far a reader is behind."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders
from ottla.wire.errors import OttlaError
from ottla.wire.messages import LATEST
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ListOffsetsPart, ListOffsetsRequest, ListOffsetsResponse

Found = tuple[int, int]
"""An offset and its record's timestamp; -1 and -1 where there is none."""


class Lag(NamedTuple):
    """How far a reader is behind in a partition."""

    records: int
    """How many it has yet to read,"""
    seconds: float
    """and how long ago the first of them was made; 0 if there is none."""


async def ask_lag(
    cluster: Cluster, places: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, Lag]:
    """How far somebody who reads on at these offsets is behind. One question to each leader tells both."""
    found = await list_offsets(cluster, dict.fromkeys(places, LATEST), timeout_s, places)
    return {where: Lag(max(0, end - places[where]), age_s(made_ms)) for where, (end, made_ms) in found.items()}


def age_s(made_ms: int) -> float:
    """How long ago that was; 0 where there is nothing (-1), or for a record of the future."""
    return max(0.0, time.time() - made_ms / 1000) if made_ms >= 0 else 0.0


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_s: float,
    from_offsets: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, Found]:
    """For each partition the offset for a timestamp (or EARLIEST, LATEST); retried until ``timeout_s`` is over.

    With ``from_offsets``, the timestamp that is found with LATEST is that of the first record from there on.
    """
    found: dict[TopicPartition, Found] = {}

    async def attempt() -> dict[TopicPartition, Found]:
        missing = {where: timestamp for where, timestamp in wanted.items() if where not in found}
        some, failures = await ask_offsets(cluster, missing, cluster.attempt_s(timeout_s), from_offsets)
        found.update(some)
        for error in failures.values():
            raise error
        return found

    return await cluster.retry(attempt, timeout_s, "offsets were not found")


async def ask_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_s: float,
    from_offsets: Mapping[TopicPartition, int] | None = None,
) -> tuple[dict[TopicPartition, Found], dict[TopicPartition, OttlaError]]:
    """Ask every leader once: what was found, and what went wrong. A broker that is gone fails its partitions only."""
    since = from_offsets or {}

    def request(group: list[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            [
                ListOffsetsPart(*where, wanted[where], cluster.leader_epoch(where), since.get(where, -1))
                for where in group
            ]
        )

    answers, failures = await ask_leaders(
        cluster, wanted, request, ListOffsetsResponse, lambda answer: answer.parts, timeout_s
    )
    return {where: (part.offset, part.timestamp_ms) for where, part in answers.items()}, failures
