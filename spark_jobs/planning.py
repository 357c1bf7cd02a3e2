"""What there is to read, as brokers tell it: partitions, where they begin and end. For the driver's side."""

import asyncio
import time
from collections.abc import Collection
from typing import Protocol

from ottla.client.cluster import Cluster, NobodyAnswers
from ottla.client.loop_thread import shared_loop_thread
from ottla.client.offsets import list_offsets
from ottla.spark_jobs.clusters import APPEAR_S, cluster_for, unknown_topic, unreachable
from ottla.spark_jobs.errors import data_lost
from ottla.spark_jobs.options import ReadOptions, TopicChoice
from ottla.spark_jobs.positions import Offsets, Position
from ottla.wire.errors import ConfigError, OttlaError, UnknownTopicOrPartition, error_for
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

Partitions = dict[TopicPartition, str]
"""Partitions, each with the id of its topic."""


class Catalog(Protocol):
    """What there is to read: of brokers, or in folders."""

    def partitions(self, *, missing_ok: bool = False) -> Partitions:
        """Those that the options ask for. ConfigError if a topic that is named is not there, unless that is to be borne."""

    def offsets(self, wanted: dict[TopicPartition, int]) -> Offsets:
        """For each partition its EARLIEST or LATEST offset, or the first at a time: -1 if all records are older."""

    def folder(self, where: TopicPartition) -> str:
        """Where its files are, for who reads files."""


def catalog_for(options: ReadOptions) -> Catalog:
    if options.from_files:
        from ottla.spark_jobs.log_files import FileCatalog

        return FileCatalog(options)
    return BrokerCatalog(options)


def resolve(position: Position, partitions: Collection[TopicPartition], catalog: Catalog) -> Offsets:
    """A position as offsets of these partitions."""
    _check_named(position, partitions)
    found = {where: offset for where in partitions if (offset := position.given(where)) is not None}
    asked = catalog.offsets({where: position.questions(where) for where in partitions if where not in found})
    late = [where for where, offset in asked.items() if offset < 0]
    if late and not position.latest_if_none:
        raise ConfigError(
            f"option {position.option}: {late[0]} has no record as new as that; give an earlier time, or "
            "startingOffsetsByTimestampStrategy=latest to begin at its end"
        )
    if late:
        asked |= catalog.offsets(dict.fromkeys(late, LATEST))
    return found | asked


def _check_named(position: Position, partitions: Collection[TopicPartition]) -> None:
    if position.named is None:
        return
    missing = sorted(where for where in partitions if where not in position.named)
    strange = sorted(where for where in position.named if where not in partitions)
    if missing or strange:
        which = (
            f"says nothing of {missing[0]}"
            if missing
            else f"names {strange[0]}, which is not among those that are read"
        )
        raise ConfigError(f"option {position.option} {which}; name every partition that is read, and no other")


def check_range(
    options: ReadOptions, starts: Offsets, ends: Offsets, catalog: Catalog
) -> tuple[Offsets, Offsets, list[str]]:
    """What of [start, end) is there; what is missing is an error, or a warning with failOnDataLoss=false."""
    begins = catalog.offsets(dict.fromkeys(starts, EARLIEST))
    latest = catalog.offsets(dict.fromkeys(ends, LATEST))
    warnings = []
    for where in sorted(starts):
        kept = f"{where} holds offsets {begins[where]} to {latest[where]}"
        for position, offset in ((options.starting, starts[where]), (options.ending, ends[where])):
            if not begins[where] <= offset <= latest[where]:
                what = f"option {position.option}: {kept}, and offset {offset} was asked for"
                warnings.append(data_lost(what, options.fail_on_data_loss))
        if starts[where] > ends[where]:
            raise ConfigError(
                f"options {options.starting.option} and {options.ending.option}: {where} would begin at {starts[where]} "
                f"and end at {ends[where]}; give an end that is not before the beginning"
            )
    clip = {where: (begins[where], latest[where]) for where in starts}
    return _clipped(starts, clip), _clipped(ends, clip), warnings


def _clipped(offsets: Offsets, bounds: dict[TopicPartition, tuple[int, int]]) -> Offsets:
    return {where: min(max(offset, bounds[where][0]), bounds[where][1]) for where, offset in offsets.items()}


class BrokerCatalog:
    """As the brokers of a cluster tell it. Only what is committed: the latest offset is the high watermark."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = cluster_for(options.client)
        self._gone: set[str] = set()
        """Topics that were not there though they were asked for again: those that were deleted under a stream."""
        self._timeout_s = int(dict(options.client).get("request_timeout_ms", 30_000)) / 1000

    def partitions(self, *, missing_ok: bool = False) -> Partitions:
        try:
            return shared_loop_thread().run(self._partitions(missing_ok))
        except NobodyAnswers:
            raise unreachable(self._cluster, self._options.client, self._timeout_s) from None

    def offsets(self, wanted: dict[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        found = shared_loop_thread().run(list_offsets(self._cluster, wanted, self._timeout_s))
        return {where: offset for where, (offset, _) in found.items()}

    def folder(self, where: TopicPartition) -> str:
        return ""

    async def _partitions(self, missing_ok: bool) -> Partitions:
        choice, cluster = self._options.choice, self._cluster
        deadline = time.monotonic() + self._timeout_s
        appear_until = time.monotonic() + min(APPEAR_S, self._timeout_s)
        interval_s = self._options.offset_retry_interval_ms / 1000
        left = self._options.offset_retries
        while True:
            try:
                return await _ask(cluster, choice, self._gone if missing_ok else set())
            except UnknownTopicOrPartition as error:
                left -= 1
                if left < 0 and time.monotonic() > appear_until:
                    if not missing_ok:
                        raise await unknown_topic(cluster, choice.option(), choice.names) from None
                    self._gone.add(error.topic or "")
            except OttlaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(max(interval_s, 0.05))


async def _ask(cluster: Cluster, choice: TopicChoice, gone: set[str]) -> Partitions:
    if choice.pattern is not None:
        answer = await cluster.metadata(None)
        topics = {topic.name: topic for topic in answer.topics if choice.wants(topic.name, 0)}
        for topic in topics.values():
            if topic.error_code:  # it does not fit into the answer: what is wanted must not be left out without a word
                raise error_for(topic.error_code, topic.error_message, topic=topic.name)
        cluster.watched.update(topics)
        cluster.topics.update({name: topic for name, topic in topics.items() if name not in cluster.topics})
    else:
        cluster.watched.update(choice.names)
        await cluster.refresh()
    found = {}
    for name in choice.names if choice.pattern is None else topics:
        if name not in cluster.topics and name in gone:
            continue
        gone.discard(name)
        cluster.raise_if_missing(name)
        topic = cluster.topics[name]
        for number in choice.assigned.get(name, range(len(topic.partitions))):
            if number >= len(topic.partitions):
                raise ConfigError(
                    f"option assign: there is no partition {name}-{number}; topic {name!r} has {len(topic.partitions)}"
                )
            found[TopicPartition(name, number)] = topic.topic_id
    return found
