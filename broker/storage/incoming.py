"""Record batches on their way into a log: every check comes before the first byte is changed or written."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.storage.log_config import CREATE_TIME, LogConfig
from ottla.broker.storage.segments.index import BatchPlace
from ottla.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    check_batch,
    check_produced,
    stamp,
    stamp_append_time,
)
from ottla.wire.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge
from ottla.wire.payload_check import check_payload

Batches = list[tuple[int, BatchHeader]]
"""Batches of a buffer, in order: position and header."""


class Appended(NamedTuple):
    """Where produced records went."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    append_time_ms: int
    """The broker's time that replaced the producer's, -1 if the producer's stands."""


def produced_batches(records: memoryview, config: LogConfig, now_ms: int) -> Batches:
    """The batches that a producer sent. Raises, naming the rule, if it may not send one of them."""
    batches: Batches = []
    position = 0
    while position < len(records):
        header = check_produced(records, position)
        size = header.length + LENGTH_OVERHEAD
        if size > config.max_message_bytes:
            raise MessageTooLarge(
                f"a batch of {size} bytes; the topic's max.message.bytes is {config.max_message_bytes}"
            )
        check_payload(records[position : position + size], header)
        if config.message_timestamp_type == CREATE_TIME:
            _check_times(header, config, now_ms)
        batches.append((position, header))
        position += size
    if not batches:
        raise InvalidRecord("there is no record batch to append")
    return batches


def _check_times(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """A producer whose clock is wrong must not decide when segments end and when records are old."""
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"a record of {header.max_timestamp} ms, which is {header.max_timestamp - now_ms} ms from now; "
            f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
        )
    if header.first_timestamp >= 0 and now_ms - header.first_timestamp > config.message_timestamp_before_max_ms:
        raise InvalidTimestamp(
            f"a record of {header.first_timestamp} ms, {now_ms - header.first_timestamp} ms ago; "
            f"message.timestamp.before.max.ms is {config.message_timestamp_before_max_ms}"
        )


def stamp_batches(
    records: memoryview, batches: Batches, first_offset: int, leader_epoch: int, append_time_ms: int
) -> list[BatchPlace]:
    """Write what the leader decides into produced batches, in place: offsets, epoch, and the time unless that is -1."""
    places = []
    for position, header in batches:
        stamp(records, position, first_offset, leader_epoch)
        if append_time_ms >= 0:
            header = stamp_append_time(records, position, header, append_time_ms)
        next_offset = first_offset + header.last_offset_delta + 1
        places.append(
            BatchPlace(position, header.length + LENGTH_OVERHEAD, first_offset, next_offset, header.max_timestamp)
        )
        first_offset = next_offset
    return places


def replicated_batches(records: memoryview, next_offset: int, latest_epoch: int) -> Batches:
    """The whole batches that a leader sent; a fetch may end inside one, which is left out.

    They must go on where this log ends (a gap is allowed: compaction leaves some), and epochs must not go back.
    """
    batches: Batches = []
    position = 0
    while len(records) - position >= HEADER_SIZE:
        size = int.from_bytes(records[position + 8 : position + LENGTH_OVERHEAD], "big", signed=True) + LENGTH_OVERHEAD
        if size > len(records) - position:
            break
        header = check_batch(records, position)
        if header.base_offset < next_offset:
            raise CorruptMessage(f"the leader sent offset {header.base_offset} where the log ends at {next_offset}")
        if header.leader_epoch < max(latest_epoch, 0):
            raise CorruptMessage(f"the leader sent epoch {header.leader_epoch} after epoch {latest_epoch}")
        batches.append((position, header))
        position += size
        next_offset, latest_epoch = header.next_offset, header.leader_epoch
    return batches


def split_for_segments(batches: Batches, room: int, segment_bytes: int) -> Iterator[Batches]:
    """Cut batches into runs that each fit into one segment, the first into ``room`` bytes. Gaps cut too.

    A batch that is larger than a segment gets one for itself.
    """
    run: Batches = []
    used = 0
    for position, header in batches:
        gap = bool(run) and run[-1][1].next_offset != header.base_offset
        if run and (gap or used + header.size > room):
            yield run
            run, used, room = [], 0, segment_bytes
        run.append((position, header))
        used += header.size
    if run:
        yield run


def places_of(run: Batches) -> list[BatchPlace]:
    """Where the batches of a run lie in it, counted from its first byte."""
    start = run[0][0]
    return [
        BatchPlace(position - start, header.size, header.base_offset, header.next_offset, header.max_timestamp)
        for position, header in run
    ]
