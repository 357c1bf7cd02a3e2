"""Asking the leaders of partitions: each is asked once for all that it leads, and what fails does so alone."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.wire.errors import LeaderNotAvailable, OttlaError, UnknownTopicOrPartition
from ottla.wire.messages import Failure, Message, Request
from ottla.wire.names import TopicPartition

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Failure)


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request_for: Callable[[list[TopicPartition]], Request],
    kind: type[M],
    results_of: Callable[[M], Sequence[F]],
    timeout_s: float,
) -> tuple[dict[TopicPartition, F], dict[TopicPartition, OttlaError]]:
    """Ask every leader once: what was answered, and what went wrong. A broker that is gone fails its partitions only."""
    answers: dict[TopicPartition, F] = {}
    failures: dict[TopicPartition, OttlaError] = {}
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for where in partitions:
        cluster.watched.add(where.topic)
        leader = cluster.leader(where)
        if leader is None:
            failures[where] = why_no_leader(cluster, where)
        else:
            by_leader[leader].append(where)

    async def ask(leader: int, group: list[TopicPartition]) -> None:
        try:
            channel = await cluster.channel(leader)
            answer = await cluster.ask_while(
                lambda: all(cluster.leader(where) == leader for where in group),
                channel, request_for(group), kind, timeout_s,
            )  # fmt: skip
        except OttlaError as error:
            failures.update(dict.fromkeys(group, error))
            return
        for where, result in zip(group, results_of(answer), strict=True):
            if result.error_code:
                failures[where] = result.error(topic=where.topic, partition=where.partition)
            else:
                answers[where] = result

    await asyncio.gather(*(ask(leader, group) for leader, group in by_leader.items()))
    return answers, failures


def why_no_leader(cluster: Cluster, where: TopicPartition) -> OttlaError:
    topic = cluster.topics.get(where.topic)
    if topic is None:
        return UnknownTopicOrPartition(f"topic {where.topic!r} does not exist", topic=where.topic)
    if where.partition >= len(topic.partitions) or where.partition < 0:
        text = f"there is no partition {where}; topic {where.topic!r} has {len(topic.partitions)}"
        return UnknownTopicOrPartition(text, topic=where.topic, partition=where.partition)
    return LeaderNotAvailable(f"{where} has no leader", topic=where.topic, partition=where.partition)
