"""Record batches as Arrow, in the columns of Spark's Kafka source. Needs ``pip install 'ottla[arrow]'``.

Keys and values of a single uncompressed columnar batch are not copied: the Arrow arrays point into its buffer, which
must therefore stay as it is for as long as they live (a consumer's fetched batches do). Several batches become one by
one copy of their bytes. Nothing here runs once a record, but for headers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.wire.batch import TimestampType
from ottla.wire.errors import ConfigError, CorruptMessage, MessageTooLarge
from ottla.wire.records import RecordBatch

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Int64Array = numpy.ndarray[Any, numpy.dtype[numpy.int64]]

BINARY_MAX = 2**31 - 1
"""The most bytes that one Arrow array of type binary holds: its offsets are 32 bits wide."""

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
"""Later times (the year 294247) cannot be told in microseconds and are shown as this one, so that they can be read."""

CONSTANT_ROWS = 16 * 1024
"""Columns that say the same of every record (topic, partition) are kept at this length: more than most batches have."""


@lru_cache
def arrow_schema(headers: bool = False) -> pyarrow.Schema:
    """The columns of Spark's Kafka source, in its order, names and types."""
    _, arrow = _import()
    fields = [
        ("key", arrow.binary()),
        ("value", arrow.binary()),
        ("topic", arrow.string()),
        ("partition", arrow.int32()),
        ("offset", arrow.int64()),
        ("timestamp", arrow.timestamp("us", tz="UTC")),
        ("timestampType", arrow.int32()),
    ]
    if headers:
        pair = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
        fields.append(("headers", arrow.list_(pair)))
    return arrow.schema(fields)


def batches_to_arrow(
    batches: Sequence[RecordBatch],
    topic: str,
    partition: int,
    *,
    headers: bool = False,
    columns: Sequence[str] | None = None,
) -> pyarrow.RecordBatch:
    """All records of these batches of one partition; with ``headers`` there is a column for them, null where none are.

    ``columns`` names those that are wanted, in their order: of the others nothing is built.
    """
    _, arrow = _import()
    schema = arrow_schema(headers) if columns is None else _pruned(tuple(columns))
    counts = [batch.count for batch in batches]
    arrays = [_COLUMNS[name](batches, counts, topic, partition) for name in schema.names]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


@lru_cache
def _pruned(columns: tuple[str, ...]) -> pyarrow.Schema:
    _, arrow = _import()
    whole = arrow_schema(headers=True)
    return arrow.schema([whole.field(name) for name in columns])


def _keys(batches: Sequence[RecordBatch], counts: list[int], *_: object) -> pyarrow.Array:
    return _binary([(each.key_lengths, each.keys) for each in (batch.columns() for batch in batches)], counts)


def _values(batches: Sequence[RecordBatch], counts: list[int], *_: object) -> pyarrow.Array:
    return _binary([(each.value_lengths, each.values) for each in (batch.columns() for batch in batches)], counts)


def _topic(_: object, counts: list[int], topic: str, partition: int) -> pyarrow.Array:
    return _constant("string", topic, sum(counts))


def _partition(_: object, counts: list[int], topic: str, partition: int) -> pyarrow.Array:
    return _constant("int32", partition, sum(counts))


def _offset_column(batches: Sequence[RecordBatch], *_: object) -> pyarrow.Array:
    return _import()[1].array(_concatenate([_offsets(batch) for batch in batches]))


def _timestamp_column(batches: Sequence[RecordBatch], *_: object) -> pyarrow.Array:
    arrow = _import()[1]
    times = _concatenate([_timestamps_us(batch) for batch in batches])
    return arrow.array(times).view(arrow.timestamp("us", tz="UTC"))


def _timestamp_types(batches: Sequence[RecordBatch], counts: list[int], *_: object) -> pyarrow.Array:
    numpy, arrow = _import()
    kinds = [batch.timestamp_type for batch in batches]
    if len(set(kinds)) == 1:  # mostly: the topic says which
        return _constant("int32", int(kinds[0]), sum(counts))
    return arrow.array(numpy.repeat(numpy.array(kinds, numpy.int32), counts))


def _header_column(batches: Sequence[RecordBatch], *_: object) -> pyarrow.Array:
    rows = [pairs or None for batch in batches for pairs in batch.headers()]
    return _import()[1].array(rows, arrow_schema(headers=True).field("headers").type)


_COLUMNS: dict[str, Callable[..., Any]] = {
    "key": _keys,
    "value": _values,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset_column,
    "timestamp": _timestamp_column,
    "timestampType": _timestamp_types,
    "headers": _header_column,
}


def _constant(kind: str, value: str | int, count: int) -> pyarrow.Array:
    """The same value so many times: a slice of an array that is made once for many batches."""
    if count > CONSTANT_ROWS:
        return _repeated(kind, value, count)
    return _kept_constant(kind, value).slice(0, count)


@lru_cache(maxsize=64)
def _kept_constant(kind: str, value: str | int) -> pyarrow.Array:
    return _repeated(kind, value, CONSTANT_ROWS)


def _repeated(kind: str, value: str | int, count: int) -> pyarrow.Array:
    arrow = _import()[1]
    return arrow.repeat(arrow.scalar(value, arrow.type_for_alias(kind)), count)


def _binary(columns: list[tuple[memoryview | None, memoryview | None]], counts: list[int]) -> pyarrow.Array:
    """One binary array of the key or value columns of several batches, whose lengths RecordBatch has checked."""
    numpy, arrow = _import()
    count = sum(counts)
    present = [data for _, data in columns if data is not None]
    if not present:
        return arrow.nulls(count, arrow.binary())
    total = sum(map(len, present))
    if total > BINARY_MAX:
        raise MessageTooLarge(f"{total} bytes for one Arrow array", hint="convert fewer batches at a time")
    lengths = _concatenate(
        [
            numpy.full(size, -1, numpy.int32) if column is None else numpy.frombuffer(column, "<i4")
            for (column, _), size in zip(columns, counts, strict=True)
        ]
    )
    offsets = numpy.zeros(count + 1, numpy.int32)
    validity = None
    nulls = lengths < 0
    null_count = int(numpy.count_nonzero(nulls))
    if null_count:
        validity = arrow.py_buffer(numpy.packbits(~nulls, bitorder="little"))
        lengths = numpy.where(nulls, 0, lengths)
    numpy.cumsum(lengths, out=offsets[1:])
    data = arrow.py_buffer(present[0] if len(present) == 1 else b"".join(present))
    return arrow.Array.from_buffers(arrow.binary(), count, [validity, arrow.py_buffer(offsets), data], null_count)


def _offsets(batch: RecordBatch) -> Int64Array:
    numpy, _ = _import()
    offsets = batch.offsets()
    if isinstance(offsets, range):
        return numpy.arange(offsets.start, offsets.stop, dtype=numpy.int64)  # type: ignore[no-any-return]
    return numpy.array(offsets, numpy.int64)  # type: ignore[no-any-return]


def _timestamps_us(batch: RecordBatch) -> Int64Array:
    numpy, _ = _import()
    header = batch.header
    column = batch.columns().timestamps
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        times = numpy.full(batch.count, header.max_timestamp, numpy.int64)
    elif column is None:
        times = numpy.full(batch.count, header.first_timestamp, numpy.int64)
    else:
        deltas = numpy.frombuffer(column, "<i4" if len(column) == 4 * batch.count else "<i8")
        latest = header.first_timestamp + int(deltas.max())
        earliest = header.first_timestamp + int(deltas.min())
        if not -(2**63) <= earliest <= latest < 2**63:
            raise CorruptMessage("record with a timestamp of more than 64 bits")
        times = deltas + numpy.int64(header.first_timestamp)
    return numpy.clip(times, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX) * 1000  # type: ignore[no-any-return]


def _concatenate(arrays: list[Any]) -> Any:
    numpy, _ = _import()
    if not arrays:
        return numpy.empty(0, numpy.int64)
    return arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)


def _import() -> tuple[Any, Any]:
    """numpy and pyarrow, here and not above: who reads lists needs neither."""
    try:
        import numpy
        import pyarrow
    except ImportError as error:
        raise ConfigError(
            f"records become Arrow with numpy and pyarrow, and {error.name} is not installed",
            hint="pip install 'ottla[arrow]'",
        ) from error
    return numpy, pyarrow
