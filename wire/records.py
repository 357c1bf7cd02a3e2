"""The records inside batches: one front for our columnar payload and for Kafka's own.

``encode_batch`` makes a batch as a producer sends it, ``RecordBatch`` reads one of either magic. The layouts stand in
ottla.wire.columns and ottla.wire.kafka_records, the header in ottla.wire.batch; ottla.wire.rewriting makes batches of batches.
"""

from collections.abc import Sequence
from functools import cached_property

from ottla.wire.batch import (
    COUNT_MAX,
    HEADER_SIZE,
    MAGIC_COLUMNS,
    MAGIC_KAFKA,
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Codec,
    TimestampType,
    build_batch,
    check_batch,
    check_claims,
    check_magic,
    read_header,
)
from ottla.wire.columns import (
    Columns,
    Headers,
    decode_columns,
    encode_columns,
    encode_joined,
    join_column,
    join_deltas,
    join_headers,
    join_offsets,
    split_column,
    split_deltas,
    split_headers,
    split_offsets,
)
from ottla.wire.compression import compress, decompress
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
)
from ottla.wire.kafka_records import INT64_MAX, INT64_MIN, KafkaRecords, decode_records, decode_times, encode_records

DECODED_MAX = 256 * 1024 * 1024
"""The largest payload after decompression: more than twice the largest frame, and little enough that a bomb hurts nobody.

As Python objects the worst payload of this size takes a few times as much, never an amount that the sender can choose.
"""

HeaderPairs = Sequence[tuple[str, bytes | None]]


# --- writing -----------------------------------------------------------------------------------------------------------


def encode_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[HeaderPairs] | None = None,
    timestamps: int | Sequence[int],
    codec: Codec = Codec.NONE,
    level: int | None = None,
    magic: int = MAGIC_COLUMNS,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One whole batch of these records, base offset 0; one timestamp for all, or one each.

    ``level`` is the codec's own scale; ``magic`` MAGIC_KAFKA makes a batch in Kafka's format.
    """
    count = _check_counts(values, keys, headers)
    first, largest, deltas = _check_timestamps(timestamps, count)
    payload, size = encode_payload(magic, values, keys, headers, deltas)
    return build_batch(
        compress_payload(payload, size, codec, level),
        magic=magic,
        attributes=codec,
        count=count,
        first_timestamp=first,
        max_timestamp=largest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_joined_batch(
    columns: Columns,
    count: int,
    timestamp_ms: int,
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One whole batch of columns that are joined already, all records with one timestamp. Nothing here runs once a record.

    Whether lengths and data agree is for the caller to see to: a broker looks, but not at everything.
    """
    if not 0 < count <= COUNT_MAX:
        raise InvalidRecord(f"a batch has 1 to {COUNT_MAX} records, not {count}")
    payload, size = encode_joined(columns)
    return build_batch(
        compress_payload(payload, size, codec),
        magic=MAGIC_COLUMNS,
        attributes=codec,
        count=count,
        first_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_payload(
    magic: int,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[HeaderPairs] | None,
    deltas: list[int] | None,
    offset_deltas: Sequence[int] | None = None,
) -> tuple[list[Buffer], int]:
    """The payload before it is compressed, in pieces, and its size; timestamps and offsets as differences to the first."""
    if magic == MAGIC_KAFKA:
        records = encode_records(values, keys, headers, deltas, offset_deltas)
        return [records], len(records)
    offsets = None if offset_deltas is None else join_offsets(offset_deltas)
    return encode_columns(join_deltas(deltas), keys, values, join_headers(headers), offsets)


def compress_payload(payload: list[Buffer], size: int, codec: Codec, level: int | None = None) -> list[Buffer]:
    """The payload as it stands in a batch. MessageTooLarge if no reader would take it."""
    if size > DECODED_MAX:
        raise MessageTooLarge(f"a batch of {size} bytes; no reader takes more than {DECODED_MAX}")
    return payload if codec is Codec.NONE else [compress(codec, b"".join(payload), level)]


def _check_counts(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, headers: Sequence[HeaderPairs] | None
) -> int:
    count = len(values)
    if not 0 < count <= COUNT_MAX:
        raise InvalidRecord(f"a batch has 1 to {COUNT_MAX} records, not {count}")
    for name, column in (("keys", keys), ("headers", headers)):
        if column is not None and len(column) != count:
            raise InvalidRecord(f"{count} values with {len(column)} {name}")
    return count


def _check_timestamps(timestamps: int | Sequence[int], count: int) -> tuple[int, int, list[int] | None]:
    """The first and the largest timestamp and all as differences to the first; None where there are no differences."""
    if isinstance(timestamps, int):
        first = smallest = largest = timestamps
    elif len(timestamps) != count:
        raise InvalidRecord(f"{count} values with {len(timestamps)} timestamps")
    elif timestamps.count(timestamps[0]) == count:  # mostly they are: a batch takes no millisecond to fill
        first = smallest = largest = timestamps[0]
    else:
        first, smallest, largest = timestamps[0], min(timestamps), max(timestamps)
    if smallest < NO_TIMESTAMP or largest > INT64_MAX or largest - first > INT64_MAX:
        raise InvalidTimestamp(f"timestamps from {smallest} to {largest} ms")
    if smallest == largest or isinstance(timestamps, int):
        return first, largest, None
    return first, largest, [timestamp - first for timestamp in timestamps]


# --- reading ---------------------------------------------------------------------------------------------------------


class RecordBatch:
    """A view on one whole batch of either magic. Nothing is decoded before it is asked for, and nothing twice.

    The lists that it gives are its own: do not change them. The buffer must stay as it is while the batch is in use.
    ``verify=False`` skips the CRC, for bytes that were checked on their way in.
    """

    def __init__(self, buffer: Buffer, verify: bool = True, decoded_max: int = DECODED_MAX) -> None:
        self.header = header = check_batch(buffer) if verify else _check_shape(read_header(buffer))
        if header.base_offset < 0 or header.next_offset > INT64_MAX:
            raise CorruptMessage(f"record batch of offsets {header.base_offset} to {header.last_offset}")
        self._buffer = memoryview(buffer)[: header.size]
        self._decoded_max = decoded_max

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        """The offset behind the batch, where a reader goes on."""
        return self.header.next_offset

    @property
    def count(self) -> int:
        return self.header.count

    @property
    def codec(self) -> Codec:
        return self.header.codec

    @property
    def timestamp_type(self) -> TimestampType:
        return self.header.timestamp_type

    @property
    def size(self) -> int:
        """The bytes of the whole batch as it stands on the wire."""
        return self.header.size

    @property
    def buffer(self) -> memoryview:
        """The whole batch as it stands on the wire."""
        return self._buffer

    def offsets(self) -> range | list[int]:
        """Each record's offset: a range, or a list where compaction took records away."""
        base, deltas = self.header.base_offset, self.offset_deltas()
        return range(base, base + len(deltas)) if isinstance(deltas, range) else [base + delta for delta in deltas]

    def offset_deltas(self) -> Sequence[int]:
        """Each record's offset minus ``base_offset``: a range if it is the record's place."""
        count = self.header.count
        if self.header.magic == MAGIC_KAFKA:
            return self._kafka_records.offset_deltas
        if self.header.last_offset_delta == count - 1 or (column := self._columns.offsets) is None:
            return range(count)
        return split_offsets(column, self.header.last_offset_delta)

    def timestamps(self) -> list[int]:
        """Each record's timestamp in ms; the time of the append for all, where the topic says so."""
        return self._timestamps

    def times(self) -> tuple[Sequence[int], list[int]]:
        """Offsets and timestamps of all records, with as little as possible decoded of them."""
        header = self.header
        if header.magic == MAGIC_COLUMNS or header.timestamp_type is TimestampType.LOG_APPEND_TIME or header.is_gap:
            return self.offsets(), self.timestamps()
        deltas, times = decode_times(self._payload(), header.count, header.last_offset_delta)
        first = header.first_timestamp
        if first + min(times) < INT64_MIN or first + max(times) > INT64_MAX:
            raise CorruptMessage("record with a timestamp of more than 64 bits")
        return [header.base_offset + delta for delta in deltas], [first + each for each in times]

    def keys(self) -> list[bytes | None]:
        return self._keys

    def values(self) -> list[bytes | None]:
        return self._values

    def headers(self) -> list[Headers]:
        return self._headers

    def columns(self) -> Columns:
        """The columns as buffers, for Arrow: views on the batch where it is columnar and not compressed.

        ``timestamps`` are differences to ``header.first_timestamp``; where timestamp_type is LOG_APPEND_TIME the
        header's max_timestamp stands for all of them.
        """
        return self._columns

    @cached_property
    def _columns(self) -> Columns:
        if self.header.magic == MAGIC_COLUMNS:
            columns = decode_columns(self._payload(), self.header.count)
            if columns.offsets is not None:
                split_offsets(columns.offsets, self.header.last_offset_delta)
            return columns
        records = self._kafka_records
        deltas = records.timestamp_deltas if any(records.timestamp_deltas) else None
        joined = (join_deltas(deltas), *join_column(records.keys or None), *join_column(records.values or None))
        more = join_headers(records.headers), join_offsets(records.offset_deltas)
        return Columns._make(None if column is None else memoryview(column) for column in (*joined, *more))

    @cached_property
    def _kafka_records(self) -> KafkaRecords:
        return decode_records(self._payload(), self.header.count, self.header.last_offset_delta)

    @cached_property
    def _timestamps(self) -> list[int]:
        header = self.header
        if header.is_gap or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return [header.max_timestamp] * header.count
        if header.magic == MAGIC_KAFKA:
            deltas = self._kafka_records.timestamp_deltas
        elif (column := self._columns.timestamps) is None:
            return [header.first_timestamp] * header.count
        else:
            deltas = split_deltas(column, header.count)
        first = header.first_timestamp
        if first + min(deltas) < INT64_MIN or first + max(deltas) > INT64_MAX:
            raise CorruptMessage("record with a timestamp of more than 64 bits")
        return [first + delta for delta in deltas]

    @cached_property
    def _keys(self) -> list[bytes | None]:
        if self.header.magic == MAGIC_KAFKA:
            return self._kafka_records.keys
        return split_column(self._columns.key_lengths, self._columns.keys, self.header.count)

    @cached_property
    def _values(self) -> list[bytes | None]:
        if self.header.magic == MAGIC_KAFKA:
            return self._kafka_records.values
        return split_column(self._columns.value_lengths, self._columns.values, self.header.count)

    @cached_property
    def _headers(self) -> list[Headers]:
        if self.header.magic == MAGIC_KAFKA:
            return self._kafka_records.headers
        return split_headers(self._columns.headers, self.header.count)

    def _payload(self) -> memoryview:
        return decompress(self.header.codec, self._buffer[HEADER_SIZE:], self._decoded_max)


def find_offset_by_timestamp(batch: RecordBatch, timestamp_ms: int) -> tuple[int, int] | None:
    """The offset and the timestamp of the first record that is not older than ``timestamp_ms``."""
    return next(((offset, at_ms) for offset, at_ms in zip(*batch.times(), strict=True) if at_ms >= timestamp_ms), None)


def find_youngest(batch: RecordBatch) -> tuple[int, int]:
    """The offset and the timestamp of the first record that has the largest timestamp."""
    offsets, timestamps = batch.times()
    largest = max(timestamps)
    return offsets[timestamps.index(largest)], largest


def _check_shape(header: BatchHeader) -> BatchHeader:
    """What check_batch checks, but for the CRC."""
    check_magic(header)
    check_claims(header)
    return header
