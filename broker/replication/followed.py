"""What is fetched from one leader: which partitions, what to ask for them, and what to do with what comes.

Nothing here waits: an answer is taken, and the next request sent, within one turn of the event loop. All of it is compiled.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import cast

from ottla.broker.peers import Identity
from ottla.broker.replication.partition import LeaderLacksCommitted, Partition
from ottla.net.channel import Channel
from ottla.net.exchange import Answer
from ottla.net.retry import backoff
from ottla.wire.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InconsistentTopicId,
    NotLeaderOrFollower,
    OttlaError,
    StorageError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.wire.requests import FetchDrop, FetchPart, FetchPartResult, FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

FETCH_WAIT_MS = 500
FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 2 * 1024 * 1024
NAMES_MAX = 5000
"""How many partitions one request names; brokers take 10,000."""

FIRST_PARTITION_RETRY_S, LAST_PARTITION_RETRY_S = 0.005, 0.2
"""How long a partition whose fetch failed is left alone; most often its leader has not heard of it yet, and will at once."""

LAST_DAMAGED_RETRY_S = 2.0
"""The same where the leader's copy is damaged: each attempt may carry the damaged records once more."""

RACES = (UnknownTopicOrPartition, NotLeaderOrFollower, FencedLeaderEpoch, UnknownLeaderEpoch, InconsistentTopicId)
RACE_S = 5.0
"""A leader answers with these that has not taken an order yet, or has taken one that the follower has not. If that lasts for so
long, it is no race between their orders, and is logged at INFO, once."""

PARKED_S = 3600.0
"""How long a partition is left alone of which somebody else says when to go on."""

Pause = asyncio.Future[list[Partition]]
"""Done when fetching must pause: with the partitions that must be on disk first, none if nothing is due, or what went wrong."""


class Failing:
    """The fetches of one partition that have failed since the last one that did not."""

    def __init__(self, waits: Iterator[float], since: float) -> None:
        self.waits = waits
        self._since = since
        self._is_logged = False

    def level_of(self, why: OttlaError, now: float) -> int:
        """At which level the next failure is logged: a race between orders is nobody's business unless it lasts."""
        if isinstance(why, RACES) and (self._is_logged or now - self._since < RACE_S):
            return logging.DEBUG
        self._is_logged = True
        return logging.INFO


class FollowedPartitions:
    """The partitions that one leader leads and this broker follows.

    The leader remembers what was named over a connection. So only what has changed is named: what is followed from now on, and
    what the last answer brought records or an error for.
    """

    def __init__(self, leader: int, identity: Callable[[], Identity]) -> None:
        self._leader = leader
        self._identity = identity
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._not_before: dict[tuple[str, int], float] = {}
        self._failing: dict[TopicPartition, Failing] = {}
        self._named: dict[tuple[str, int], FetchPart] = {}
        self._to_name: dict[tuple[str, int], Partition] = {}
        self._damaged: dict[tuple[str, int], int] = {}  # where a leader's records came damaged, and at which offset
        self._to_drop: list[FetchDrop] = []
        self._named_over: Channel | None = None
        self._named_in = NO_EPOCH
        self.asked_at = 0.0
        self.answered_at = 0.0
        """When the fetch was sent that followed the last answer."""

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: Partition) -> None:
        self._partitions[partition.where] = self._to_name[partition.where] = partition
        self._not_before.pop(partition.where, None)
        self._failing.pop(partition.where, None)

    def drop(self, partition: Partition) -> None:
        where = partition.where
        self._partitions.pop(where, None)
        self._to_name.pop(where, None)
        self._not_before.pop(where, None)
        self._failing.pop(where, None)
        self._damaged.pop(where, None)
        if self._named.pop(where, None) is not None:
            self._to_drop.append(FetchDrop(where.topic, where.partition))

    @property
    def any_due(self) -> bool:
        """Whether there is one that is not left alone for a moment."""
        if self._not_before:
            self._end_delays()
        return len(self._partitions) > len(self._not_before)

    def next_retry_s(self) -> float | None:
        """When the next of the partitions that are left alone is to be tried again."""
        return max(0.001, min(self._not_before.values()) - time.monotonic()) if self._not_before else None

    def _end_delays(self) -> None:
        now = time.monotonic()
        for where in [where for where, at in self._not_before.items() if at <= now]:
            del self._not_before[where]
            self._to_name[where] = self._partitions[where]

    def ask(self, channel: Channel, pause: Pause) -> None:
        """Fetch, each time as soon as the answer before is there, until ``pause`` is done."""
        identity = self._identity()
        since_last = self._named_over is channel and self._named_in == identity.broker_epoch
        any_due = self.any_due
        if not any_due and not (since_last and self._to_drop):
            pause.set_result([])
            return
        if not since_last:
            self._begin(channel, identity)
        if self._to_name:
            unsafe = self._owing()
            any_due = len(self._partitions) > len(self._not_before)
            if unsafe or not (any_due or self._to_drop):
                if not since_last:
                    self._named_over = None  # nothing was said over this connection yet
                pause.set_result(unsafe)
                return
        parts = self._name_some()
        dropped: tuple[FetchDrop, ...] = ()
        if self._to_drop:
            dropped, self._to_drop = tuple(self._to_drop), []
        wait_ms = FETCH_WAIT_MS
        if self._to_name or not any_due:
            wait_ms = 0
        elif self._not_before:
            # Whoever is left alone for a moment must not wait until the others have something to say.
            wait_ms = min(wait_ms, max(1, math.ceil((self.next_retry_s() or 0) * 1000)))
        request = FetchRequest(
            wait_ms, 1, FETCH_BYTES, parts, identity.broker_id, identity.broker_epoch, since_last, dropped
        )
        self.asked_at = time.monotonic()
        channel.call(request, lambda answer: self._answered(answer, channel, pause))

    def _owing(self) -> list[Partition]:
        """Those that must be on disk before they are named [I26]. One whose disk failed never will be: it is left alone."""
        owing = [partition for partition in self._to_name.values() if partition.owes_flush or partition.log.failed]
        if not owing:
            return owing
        for partition in owing:
            if partition.log.failed:
                self.delay(partition, StorageError(f"the disk under {partition.where} failed"))
        return [partition for partition in owing if not partition.log.failed]

    def _name_some(self) -> list[FetchPart]:
        """What is to be named, as much as fits into one request."""
        names = list(self._to_name)
        parts = []
        for name in names if len(names) <= NAMES_MAX else names[:NAMES_MAX]:
            part = self._to_name.pop(name).next_fetch(PARTITION_BYTES)
            self._named[name] = part
            parts.append(part)
        return parts

    @property
    def any_to_name(self) -> bool:
        return bool(self._to_name)

    def end_of_wait(self) -> FetchRequest:
        """To be sent when a fetch that knows nothing of a new partition waits at the leader: it is answered at once.

        Of the life that sent that fetch, even if there is another one by now.
        """
        return FetchRequest(0, 0, 0, [], self._identity().broker_id, self._named_in, since_last=True)

    def _begin(self, channel: Channel, identity: Identity) -> None:
        """Name everything: the leader knows nothing of this life of ours yet, or not over this connection."""
        self._named_over, self._named_in = channel, identity.broker_epoch
        self._named.clear()
        self._to_drop.clear()
        self._to_name = {where: p for where, p in self._partitions.items() if where not in self._not_before}

    def _answered(self, answer: Answer | OttlaError, channel: Channel, pause: Pause) -> None:
        """Take what has come and ask for more at once: a record is copied within one turn of the event loop."""
        if pause.done():
            return
        try:
            if isinstance(answer, OttlaError):
                raise answer
            self._take_all(answer)
            self.ask(channel, pause)
            self.answered_at = self.asked_at
        except Exception as error:
            self._named_over = None
            pause.set_exception(error)

    def _take_all(self, answer: Answer) -> None:
        for result, records in zip(cast(FetchResponse, answer.message).parts, answer.attachments, strict=True):
            name = (result.topic, result.partition)
            part = self._named.get(name)
            if part is None:
                continue  # it is not followed any more
            partition = self._partitions[name]
            if result.size or result.error_code or result.diverging_epoch != NO_EPOCH:
                self._to_name[partition.where] = partition
            self._take(partition, part, result, records)

    def _take(self, partition: Partition, part: FetchPart, result: FetchPartResult, records: memoryview) -> None:
        try:
            partition.take_fetched(part, result, records)
            if self._failing:
                self._failing.pop(partition.where, None)
        except LeaderLacksCommitted as refusal:
            # Its own records stay until another leader epoch begins: perhaps nobody else has them any more.
            logger.error(
                "a leader lacks committed records and is not followed partition=%s leader=%d error=%s: stop broker %d, and see"
                " whether it was started with a copy of a data folder, or without some of its data",
                partition.where, self._leader, refusal, self._leader,
            )  # fmt: skip
            self.park(partition)
        except CorruptMessage as damage:
            self._leader_sent_damage(partition, damage)
        except OttlaError as error:
            self.delay(partition, error)

    def _leader_sent_damage(self, partition: Partition, error: CorruptMessage) -> None:
        """Records came damaged, or the leader cannot read them: it hears of it with the next fetch, and looks at its copy."""
        where, offset = partition.where, partition.log.log_end_offset
        if self._damaged.get(where) != offset:
            self._damaged[where] = offset
            logger.warning(
                "a leader sent damaged records, it is asked to look at its own copy partition=%s offset=%d leader=%d error=%s",
                where, offset, self._leader, error,
            )  # fmt: skip
        self.delay(partition, error, LAST_DAMAGED_RETRY_S)

    def follows(self, partition: Partition) -> bool:
        return self._partitions.get(partition.where) is partition

    def park(self, partition: Partition) -> None:
        """Ask for nothing of this partition until it is added again."""
        if self.follows(partition):
            self._not_before[partition.where] = time.monotonic() + PARKED_S
            self._to_name.pop(partition.where, None)

    def delay(self, partition: Partition, why: OttlaError, most_s: float = LAST_PARTITION_RETRY_S) -> None:
        """Ask for nothing of this partition for a moment."""
        where = partition.where
        if not self.follows(partition):
            return
        now = time.monotonic()
        failing = self._failing.get(where)
        if failing is None:
            failing = self._failing[where] = Failing(backoff(FIRST_PARTITION_RETRY_S, most_s), now)
        level = failing.level_of(why, now)
        logger.log(level, "partition cannot follow partition=%s leader=%d error=%s", where, self._leader, why)
        self._not_before[where] = now + next(failing.waits)
        self._to_name.pop(where, None)
