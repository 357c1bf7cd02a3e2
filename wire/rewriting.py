"""Batches made of batches: in Kafka's format for clients that know no other, and with fewer records.

Whatever is made keeps its offsets, epoch and producer, and the times of its records.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any

from ottla.wire.batch import CODEC_MASK, MAGIC_KAFKA, Codec, TimestampType, build_batch, build_gap, stamp
from ottla.wire.records import RecordBatch, compress_payload, encode_payload


def as_kafka_batch(batch: RecordBatch, codec: Codec | None = None) -> bytearray:
    """A columnar batch in Kafka's format."""
    return _rewritten(batch, MAGIC_KAFKA, batch.codec if codec is None else codec)


def keep_records(batch: RecordBatch, kept: Sequence[bool]) -> bytearray:
    """The batch with those of its records only that are to be kept; if none is, the gap that stands in its place.

    Its offsets stay its own to the last one, so that whoever has all of the log up to it goes on at the same place.
    """
    if any(kept):
        return _rewritten(batch, batch.header.magic, batch.codec, kept)
    header = batch.header
    return build_gap(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _rewritten(batch: RecordBatch, magic: int, codec: Codec, kept: Sequence[bool] | None = None) -> bytearray:
    header = batch.header
    columns: list[Sequence[Any]] = [
        batch.values(),
        batch.keys(),
        batch.headers(),
        batch.timestamps(),
        batch.offset_deltas(),
    ]
    if kept is not None:
        columns = [list(compress(column, kept)) for column in columns]
    values, keys, headers, timestamps, offset_deltas = columns
    appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    deltas = None if appended else [timestamp - header.first_timestamp for timestamp in timestamps]
    payload, size = encode_payload(magic, values, keys, headers, deltas, offset_deltas)
    rewritten = build_batch(
        compress_payload(payload, size, codec),
        magic=magic,
        attributes=header.attributes & ~CODEC_MASK | codec,
        count=len(values),
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp if kept is None else max(timestamps),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset_delta=header.last_offset_delta,
    )
    stamp(rewritten, 0, header.base_offset, header.leader_epoch)
    return rewritten
