"""Sending batches that bear their producer's numbers already: for whoever must repeat them exactly when it is started anew.

A producer numbers what it is given, and gives other numbers where a broker takes none of the old ones any more. Here the
numbers are the caller's and never change, so two attempts at the same batches, even at the same time, store them once.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import cast

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientTimeout,
    DuplicateSequenceNumber,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownTopicOrPartition,
)
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse

GRACE_S = 1.0
"""The broker itself gives up after request_timeout_ms; so much later we stop waiting for it."""

PARTS_MAX = 1_000
"""Batches in one request."""

Batches = Mapping[TopicPartition, Sequence[bytearray]]


class NumberedBatches:
    """Sends batches until all are acknowledged. One call of ``send`` at a time."""

    def __init__(self, cluster: Cluster, config: ProducerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._stored: set[TopicPartition] = set()
        """Partitions of which an earlier batch was acknowledged,"""
        self._unnamed: set[TopicPartition] = set()
        """and those of whose last one no offset was named: it is there, but perhaps not committed."""

    async def send(self, batches: Batches) -> None:
        """Store all of these, those of one partition in their order. Raises what keeps one of them from being stored.

        What was stored until then stays; whoever repeats all of it under the same numbers does no harm.
        """
        config = self._config
        waiting = {where: deque(some) for where, some in batches.items() if some}
        deadline = time.monotonic() + config.delivery_timeout_ms / 1000
        waits = backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        last: OttlaError | None = None
        while waiting:
            if time.monotonic() >= deadline:
                raise self._too_late(waiting, last)
            failures = await self._send_once(waiting)
            for error in failures:
                if not (error.retriable or self._cluster.only_hung_up(error)):
                    raise error
                last = error
            if failures:
                await asyncio.sleep(next(waits))
                await self._refresh()
            else:
                waits = backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)

    def finish(self) -> None:
        """All batches were sent: raise if one may not be committed [I21]."""
        for where in self._unnamed:
            text = f"the last batch for {where} was sent before, and batches behind it that are not of this attempt"
            raise DuplicateSequenceNumber(text, topic=where.topic, partition=where.partition)

    async def _send_once(self, waiting: dict[TopicPartition, deque[bytearray]]) -> list[OttlaError]:
        """One request to each leader; what is stored is taken from ``waiting``."""
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        failures: list[OttlaError] = []
        for where in waiting:
            leader = self._cluster.leader(where)
            if leader is not None:
                by_leader[leader].append(where)
            else:
                failures.append(UnknownTopicOrPartition(f"{where} has no leader that is known", topic=where.topic))
        answers = await asyncio.gather(*(self._ask(leader, some, waiting) for leader, some in by_leader.items()))
        for answer in answers:
            failures += answer
        for where in [where for where, some in waiting.items() if not some]:
            del waiting[where]
        return failures

    async def _ask(
        self, leader: int, places: list[TopicPartition], waiting: dict[TopicPartition, deque[bytearray]]
    ) -> list[OttlaError]:
        chosen = self._choose(places, waiting)
        parts = [ProducePart(*where, len(batch)) for where, batch in chosen]
        request = ProduceRequest(self._config.required_acks, self._config.request_timeout_ms, parts)
        try:
            channel = await self._cluster.channel(leader)
            timeout_s = self._config.request_timeout_ms / 1000 + GRACE_S
            try:
                answer = await channel.request(request, timeout_s, [batch for _, batch in chosen])
            except ClientTimeout:
                await channel.close()  # answers come in order: behind this one nothing else would come either
                raise
        except OttlaError as error:
            return [error]
        results = cast(ProduceResponse, answer.message).parts
        if len(results) != len(chosen):
            return [RemoteProtocolError(f"{channel.address} answered {len(results)} parts of {len(chosen)}")]
        return self._take(chosen, results, waiting)

    def _choose(
        self, places: list[TopicPartition], waiting: dict[TopicPartition, deque[bytearray]]
    ) -> list[tuple[TopicPartition, bytearray]]:
        """As many as a request may have, of each partition from its first on: by turns, so that none waits for another."""
        chosen: list[tuple[TopicPartition, bytearray]] = []
        room = self._config.max_request_size
        for turn in range(max(len(waiting[where]) for where in places)):
            for where in places:
                if turn < len(waiting[where]):
                    batch = waiting[where][turn]
                    if chosen and (len(batch) > room or len(chosen) == PARTS_MAX):
                        return chosen
                    chosen.append((where, batch))
                    room -= len(batch)
        return chosen

    def _take(
        self,
        chosen: list[tuple[TopicPartition, bytearray]],
        results: list[ProducePartResult],
        waiting: dict[TopicPartition, deque[bytearray]],
    ) -> list[OttlaError]:
        failures: dict[TopicPartition, OttlaError] = {}
        for (where, _), result in zip(chosen, results, strict=True):
            if where in failures:
                continue  # it comes again behind the one that failed
            error = result.error(topic=where.topic, partition=where.partition) if result.error_code else None
            # A repetition that is older than what the broker remembers is in its log, for what it has of a producer has no gap.
            # It is committed with those behind it.
            if error is None or isinstance(error, DuplicateSequenceNumber):
                waiting[where].popleft()
                self._stored.add(where)
                (self._unnamed.discard if error is None else self._unnamed.add)(where)
            else:
                failures[where] = self._explained(where, error)
        return list(failures.values())

    def _explained(self, where: TopicPartition, error: OttlaError) -> OttlaError:
        """Batches before it were acknowledged, and the leader does not have them: it is no use to try this one again."""
        if isinstance(error, OutOfOrderSequenceNumber) and where in self._stored:
            return OutOfOrderSequenceNumber(
                f"the leader of {where} has lost batches that were acknowledged: {error}",
                topic=where.topic,
                partition=where.partition,
                hint="was it elected by --unclean? an attempt that begins anew sends them again",
            )
        return error

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except OttlaError:
            pass  # the next attempt says what is wrong

    def _too_late(self, waiting: Mapping[TopicPartition, Sequence[bytearray]], last: OttlaError | None) -> OttlaError:
        some = ", ".join(map(str, list(waiting)[:5]))
        seconds = self._config.delivery_timeout_ms / 1000
        why = f": {last}" if last is not None else ""
        return ClientTimeout(self._cluster.with_tried(f"records for {some} were not stored within {seconds:g} s{why}"))
