"""Record batches on their way into a log: every check comes before the first byte is changed or written."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.storage.log_config import CREATE_TIME, LogConfig
from ottla.broker.storage.segments.index import RELATIVE_OFFSET_MAX, BatchPlace
from ottla.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    build_gap,
    check_batch,
    check_produced,
    read_header,
    stamp,
    stamp_append_time,
    stamp_max_timestamp,
)
from ottla.wire.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, OttlaError
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
    records: memoryview, batches: Batches, first_offset: int, leader_epoch: int, append_time_ms: int, now_ms: int
) -> list[BatchPlace]:
    """Write what the leader decides into produced batches, in place: offsets, epoch, and the time unless that is -1."""
    places = []
    for position, header in batches:
        stamp(records, position, first_offset, leader_epoch)
        if append_time_ms >= 0:
            header = stamp_append_time(records, position, header, append_time_ms)
        elif header.max_timestamp < header.first_timestamp:
            header = stamp_max_timestamp(records, position, header, now_ms)
        next_offset = first_offset + header.last_offset_delta + 1
        places.append(
            BatchPlace(position, header.length + LENGTH_OVERHEAD, first_offset, next_offset, header.max_timestamp)
        )
        first_offset = next_offset
    return places


class DamagedRecords(CorruptMessage):
    """A leader sent a batch that is damaged, or is not what comes next at ``offset``. All before it was appended."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def replicated_batches(
    records: memoryview, next_offset: int, latest_epoch: int, leader_epoch: int, *, is_first: bool = False
) -> tuple[Batches, DamagedRecords | None]:
    """The whole batches that a leader sent, up to the first one that is damaged, and what is wrong with that one.

    A fetch may end inside a batch, which is left out unless it is the first. They must go on where this log ends, and epochs
    must not go back nor past the leader's own. If ``is_first``, the first batch may begin before: the log is empty, and begins
    where the leader's does, which may be inside a batch.
    """
    batches: Batches = []
    position = 0
    while len(records) - position >= HEADER_SIZE:
        size = int.from_bytes(records[position + 8 : position + LENGTH_OVERHEAD], "big", signed=True) + LENGTH_OVERHEAD
        if size > len(records) - position:
            if (
                not batches
            ):  # a leader sends at least one whole batch: this length lies, and no later fetch would bring more
                why = f"it claims {size} bytes where the leader sent {len(records) - position}"
                return batches, DamagedRecords(f"the batch at offset {next_offset} is damaged: {why}", next_offset)
            break
        try:
            header = check_batch(records, position)
            # Invariant [I27]: a base offset is true where the batch before ends, for no CRC covers it.
            if header.base_offset != next_offset and not (
                is_first and header.base_offset < next_offset < header.next_offset
            ):
                header = _begin_gap_at(next_offset, records, position, header)
            if not max(latest_epoch, 0) <= header.leader_epoch <= leader_epoch:
                raise CorruptMessage(
                    f"the leader of epoch {leader_epoch} sent epoch {header.leader_epoch} after epoch {latest_epoch}"
                )
        except OttlaError as error:
            return batches, DamagedRecords(f"the batch at offset {next_offset} is damaged: {error}", next_offset)
        batches.append((position, header))
        position += size
        next_offset, latest_epoch, is_first = header.next_offset, header.leader_epoch, False
    return batches, None


def _begin_gap_at(offset: int, records: memoryview, position: int, gap: BatchHeader) -> BatchHeader:
    """A gap that the leader made of several batches, of which this log has some already: what comes after them, in place.

    A batch that has records, or a producer, keeps its offsets whatever becomes of it: no log ends inside of one.
    """
    if not (gap.is_gap and gap.producer_id < 0 and gap.base_offset < offset < gap.next_offset):
        raise CorruptMessage(f"the leader sent offset {gap.base_offset} where the log ends at {offset}")
    records[position : position + HEADER_SIZE] = build_gap(offset, gap.next_offset, gap.leader_epoch)
    return read_header(records, position)


def split_for_segments(batches: Batches, room: int, segment_bytes: int) -> Iterator[Batches]:
    """Cut batches into runs that each fit into one segment, the first into ``room`` bytes.

    A batch that is larger than a segment gets one for itself. A few gaps may span more offsets than an index can tell.
    """
    run: Batches = []
    used = 0
    for position, header in batches:
        too_long = bool(run) and header.last_offset - run[0][1].base_offset > RELATIVE_OFFSET_MAX
        if run and (too_long or used + header.size > room):
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
