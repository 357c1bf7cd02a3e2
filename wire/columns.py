"""The columnar payload: the records of a batch as six columns instead of one record after the other.

A public format, the payload of batches of magic MAGIC_COLUMNS. Uncompressed it is one msgpack array of six elements,
each of them nil or one bin, and of a seventh, a bin, in batches that have lost records::

    [timestamps, key_lengths, keys, value_lengths, values, headers]
    [timestamps, key_lengths, keys, value_lengths, values, headers, offsets]

``timestamps``     one little-endian integer a record, i32 or i64 (the width is the bin's size divided by the count of
                   the batch header): the record's timestamp minus the header's first_timestamp, in ms. nil: all equal
                   first_timestamp. Writers use i32 where all fit. In a batch of LogAppendTime the header's
                   max_timestamp stands for all, whatever is written here.
``key_lengths``    one little-endian i32 a record, the length of its key, -1 for null. nil: all keys are null.
``keys``           the keys, one after the other; null keys and empty keys take no bytes. nil iff key_lengths is nil.
``value_lengths``  as key_lengths, for values. nil: all values are null (tombstones).
``values``         as keys, for values. nil iff value_lengths is nil.
``headers``        nil: no record has headers. Else a bin that is msgpack itself: an array with one element a record,
                   each an array of [name, value] pairs in their order; name is a str, value a bin or nil.

``offsets``        one little-endian i32 a record, its offset minus the header's base_offset; they rise, and none is larger
                   than the header's last_offset_delta. Where it is missing, the record at place i has the offset
                   base_offset + i. Never in what a producer sends: only compaction takes records away.

Compression, if any, is applied to the whole msgpack array and told by the codec in the header's attributes.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import lt
from typing import NamedTuple, cast

import msgspec

from ottla.wire.batch import Buffer
from ottla.wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge

Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of one record, in their order; a name may stand more than once."""

HEADERS_MAX = 16 * 1024 * 1024
"""All headers of one batch, encoded. A header of three bytes becomes Python objects of a hundred; this bounds them."""

LAYOUT_SUMMED_MAX = 128
"""Adding up so many lengths takes a few microseconds, as long as everything else that a broker checks in a batch."""

LENGTH_SIZE = 4
OFFSET_SIZE = 4
NULL_LENGTH = -1
_NULL = struct.pack("<i", NULL_LENGTH)
_STRUCT_ITEMS = 64
_ARRAY_OF_SIX, _ARRAY_OF_SEVEN, _NIL = b"\x96", b"\x97", b"\xc0"

_Column = memoryview | None
_SixColumns = tuple[_Column, _Column, _Column, _Column, _Column, _Column]
_decoder = msgspec.msgpack.Decoder(_SixColumns)
_decoder_with_offsets = msgspec.msgpack.Decoder(tuple[_Column, _Column, _Column, _Column, _Column, _Column, memoryview])
_headers_decoder = msgspec.msgpack.Decoder(list[Headers])
_encoder = msgspec.msgpack.Encoder()

assert array("i").itemsize == LENGTH_SIZE
assert array("q").itemsize == 8


class Columns(NamedTuple):
    """The columns as they stand in the payload, views without a copy; lengths and sizes have been checked."""

    timestamps: memoryview | None
    key_lengths: memoryview | None
    keys: memoryview | None
    value_lengths: memoryview | None
    values: memoryview | None
    headers: memoryview | None
    offsets: memoryview | None = None


def encode_columns(
    timestamps: bytes | None,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    headers: bytes | None,
    offsets: bytes | None = None,
) -> tuple[list[Buffer], int]:
    """The payload of these columns, in pieces, and its size: msgpack is written here, so that no item is copied for it."""
    pieces: list[Buffer] = [_ARRAY_OF_SIX if offsets is None else _ARRAY_OF_SEVEN]
    size = 1 + _add_bin(pieces, timestamps) + _add_column(pieces, keys) + _add_column(pieces, values)
    size += _add_bin(pieces, headers)
    return pieces, size if offsets is None else size + _add_bin(pieces, offsets)


def _add_column(pieces: list[Buffer], items: Sequence[bytes | None] | None) -> int:
    """Lengths and data; how many bytes they take."""
    lengths, present = _lengths(items)
    if lengths is None:
        return _add_bin(pieces, None) + _add_bin(pieces, None)
    size = _add_bin(pieces, little_endian("i", lengths))
    data_size = sum(lengths) + (len(lengths) - len(present))  # a null counts as -1
    header = _bin_header(data_size)
    pieces.append(header)
    pieces += present
    return size + len(header) + data_size


def _add_bin(pieces: list[Buffer], data: Buffer | None) -> int:
    if data is None:
        pieces.append(_NIL)
        return 1
    header = _bin_header(len(data))
    pieces += (header, data)
    return len(header) + len(data)


def _bin_header(size: int) -> bytes:
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def encode_joined(columns: Columns) -> tuple[list[Buffer], int]:
    """As encode_columns, of columns that are joined already: whoever has Arrow's arrays has them so."""
    pieces: list[Buffer] = [_ARRAY_OF_SIX]
    return pieces, 1 + sum(_add_bin(pieces, column) for column in columns[:6])


def check_layout(payload: Buffer, count: int) -> None:
    """As decode_columns, for those who take columns from a producer, which has no offsets of its own: quick, so lengths that

    differ are added up only if they are few, and of the headers only their number is looked at.
    """
    headers = _decode_checked(payload, count, summed_max=LAYOUT_SUMMED_MAX)[5]
    if headers is not None and _array_length(headers) != count:
        raise CorruptMessage(f"headers of {_array_length(headers)} records in a batch of {count}")


def _array_length(encoded: memoryview) -> int:
    """How many elements a msgpack array says it has; -1 if it is none."""
    first = encoded[0] if encoded else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F
    size = {0xDC: 2, 0xDD: 4}.get(first, 0)
    return int.from_bytes(encoded[1 : 1 + size], "big") if size else -1


def decode_columns(payload: Buffer, count: int) -> Columns:
    """The columns of a payload of ``count`` records; CorruptMessage if they contradict it or one another."""
    if payload[:1] == _ARRAY_OF_SEVEN:
        return _decode_with_offsets(payload, count)
    return Columns._make((*_decode_checked(payload, count), None))


def _decode_with_offsets(payload: Buffer, count: int) -> Columns:
    try:
        *columns, offsets = _decoder_with_offsets.decode(payload)
    except ValueError as error:
        raise CorruptMessage(f"columnar payload of {len(payload)} bytes: {error}") from error
    if len(offsets) != OFFSET_SIZE * count:
        raise CorruptMessage(f"offset column of {len(offsets)} bytes in a batch of {count} records")
    return Columns._make((*_checked(cast(_SixColumns, tuple(columns)), count), offsets))


def _decode_checked(payload: Buffer, count: int, summed_max: int | None = None) -> _SixColumns:
    try:
        columns = _decoder.decode(payload)
    except ValueError as error:
        raise CorruptMessage(f"columnar payload of {len(payload)} bytes: {error}") from error
    return _checked(columns, count, summed_max)


def _checked(columns: _SixColumns, count: int, summed_max: int | None = None) -> _SixColumns:
    timestamps, key_lengths, keys, value_lengths, values, _ = columns
    if timestamps is not None and len(timestamps) not in (4 * count, 8 * count):
        raise CorruptMessage(f"timestamp column of {len(timestamps)} bytes in a batch of {count} records")
    if key_lengths is not None or keys is not None:
        _check_lengths("key", key_lengths, keys, count, summed_max)
    if value_lengths is not None or values is not None:
        _check_lengths("value", value_lengths, values, count, summed_max)
    return columns


def _check_lengths(
    name: str, lengths: memoryview | None, data: memoryview | None, count: int, summed_max: int | None
) -> None:
    if lengths is None or data is None:
        raise CorruptMessage(f"{name} column with lengths or with data, but not with both")
    if len(lengths) != LENGTH_SIZE * count:
        raise CorruptMessage(f"{name} length column of {len(lengths)} bytes in a batch of {count} records")
    equal = equal_length(lengths, count)
    if equal is not None:
        shortest, total = equal, max(equal, 0) * count
    elif summed_max is not None and count > summed_max:
        return
    else:
        numbers = integers("i", lengths)
        shortest = min(numbers)
        total = sum(numbers) + (numbers.count(NULL_LENGTH) if shortest < 0 else 0)
    if shortest < NULL_LENGTH:
        raise CorruptMessage(f"{name} of {shortest} bytes")
    if total != len(data):
        raise CorruptMessage(f"{name} column of {len(data)} bytes whose lengths add up to {total}")


def equal_length(lengths: memoryview, count: int) -> int | None:
    """The length of every item of a column, if they are all the same; one comparison of memory."""
    first = bytes(lengths[:LENGTH_SIZE])
    return int.from_bytes(first, "little", signed=True) if lengths.tobytes() == first * count else None


# --- keys and values ---------------------------------------------------------------------------------------------------


def join_column(items: Sequence[bytes | None] | None) -> tuple[bytes | None, bytes | None]:
    """The lengths and the data of a column; None for both if all items are null."""
    lengths, present = _lengths(items)
    return (None, None) if lengths is None else (little_endian("i", lengths), b"".join(present))


def _lengths(items: Sequence[bytes | None] | None) -> tuple[list[int] | None, Sequence[bytes]]:
    """The length of each item, -1 for null, and the items that are not; None if all are."""
    if items is None:
        return None, ()
    try:
        return list(map(len, items)), cast(Sequence[bytes], items)  # type: ignore[arg-type]
    except TypeError:  # the usual reason, an item that is None, is not looked for as long as there is none
        lengths = [NULL_LENGTH if item is None else len(item) for item in items]
        present = [item for item in items if item is not None]
        return (lengths, present) if present else (None, ())


def split_column(lengths: memoryview | None, data: memoryview | None, count: int) -> list[bytes | None]:
    """The items of a column that decode_columns gave."""
    if lengths is None or data is None:
        return [None] * count
    equal = equal_length(lengths, count)
    if equal is not None:
        return _split_equal(data, equal, count)
    numbers = integers("i", lengths)
    joined = bytes(data)
    position = 0
    if _NULL in lengths.tobytes():  # never across two lengths: no other length ends in 0xff
        return [None if n < 0 else joined[position : (position := position + n)] for n in numbers]
    return [joined[position : (position := position + n)] for n in numbers]


def _split_equal(data: memoryview, size: int, count: int) -> list[bytes | None]:
    if size <= 0:
        return [None if size < 0 else b""] * count
    rest = count % _STRUCT_ITEMS
    border = (count - rest) * size
    items = list(chain.from_iterable(_struct_of(size).iter_unpack(data[:border])))
    items += (bytes(data[start : start + size]) for start in range(border, len(data), size))
    return items


@lru_cache(maxsize=256)
def _struct_of(size: int) -> struct.Struct:
    """Cuts many items of one size in one step, several times faster than slices do."""
    return struct.Struct(f"{size}s" * _STRUCT_ITEMS)


# --- timestamps --------------------------------------------------------------------------------------------------------


def join_deltas(deltas: list[int] | None) -> bytes | None:
    """The timestamp column; None where all records have the first timestamp."""
    if deltas is None:
        return None
    try:
        return little_endian("i", deltas)
    except OverflowError:
        return little_endian("q", deltas)


def split_deltas(column: memoryview, count: int) -> list[int]:
    """Each record's timestamp minus the first, from a timestamp column that is there."""
    return integers("i" if len(column) == 4 * count else "q", column)


# --- offsets -----------------------------------------------------------------------------------------------------------


def join_offsets(deltas: Sequence[int]) -> bytes | None:
    """The offset column; None where each record has the offset of its place, as in a range."""
    if isinstance(deltas, range) or list(deltas) == list(range(len(deltas))):
        return None
    return little_endian("i", list(deltas))


def split_offsets(column: memoryview, last_offset_delta: int) -> list[int]:
    """Each record's offset minus the first of the batch. CorruptMessage if they do not rise, or go past the batch's last."""
    deltas = integers("i", column)
    if not rises_within(deltas, last_offset_delta):
        raise CorruptMessage(f"offset column that does not rise from 0 to {last_offset_delta}")
    return deltas


def rises_within(deltas: Sequence[int], last: int) -> bool:
    """Whether offsets of records, counted from their batch's first, rise from 0 or more to no more than ``last``."""
    return deltas[0] >= 0 and deltas[-1] <= last and all(map(lt, deltas, deltas[1:]))


# --- integers ----------------------------------------------------------------------------------------------------------


def little_endian(typecode: str, numbers: list[int]) -> bytes:
    """Integers as a column; OverflowError if one does not fit. (An array takes three times as long to fill.)"""
    try:
        return struct.pack(f"<{len(numbers)}{typecode}", *numbers)
    except struct.error as error:
        raise OverflowError(str(error)) from None


def integers(typecode: str, column: memoryview) -> list[int]:
    """The integers of a column."""
    numbers = array(typecode)
    numbers.frombytes(column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


# --- headers -----------------------------------------------------------------------------------------------------------


def join_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]] | None) -> bytes | None:
    """The header column; None where no record has any."""
    if headers is None or not any(headers):
        return None
    try:
        column = _encoder.encode(headers)
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"a header's name cannot be encoded as UTF-8: {error}") from error
    if len(column) > HEADERS_MAX:
        raise MessageTooLarge(f"a batch with {len(column)} bytes of headers; at most {HEADERS_MAX} are allowed")
    return column


def split_headers(column: memoryview | None, count: int) -> list[Headers]:
    """Each record's headers."""
    if column is None:
        return [()] * count
    if len(column) > HEADERS_MAX:
        raise MessageTooLarge(f"a batch with {len(column)} bytes of headers; at most {HEADERS_MAX} are allowed")
    try:
        headers = _headers_decoder.decode(column)
    except ValueError as error:
        raise CorruptMessage(f"header column of {len(column)} bytes: {error}") from error
    if len(headers) != count:
        raise CorruptMessage(f"headers of {len(headers)} records in a batch of {count}")
    return headers
