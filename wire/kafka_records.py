"""The payload of Kafka's own batches (magic 2): one record after the other, numbers as zigzag varints.

A record is::

    length | attributes i8 | timestamp delta | offset delta | key length, key | value length, value | header count, headers

where a length of -1 means null and a header is ``name length, name | value length, value``. Reading and writing stand
on every foreign client's way, so both are loops without calls: varints of one and two bytes are read in place, and
written from a table.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from ottla.wire.batch import Buffer
from ottla.wire.columns import HEADERS_MAX, Headers, rises_within
from ottla.wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge

TWO_BYTES_MAX = 2**14 - 1
"""The largest number in a varint of two bytes."""

RECORD_SIZE_MIN = 7
"""Seven fields of at least one byte; a count that the payload cannot hold is a lie."""

VARINT_SIZE_MAX = 10
"""What 64 bits take in groups of seven."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class KafkaRecords(NamedTuple):
    """The records of a payload, one list a field; offsets and timestamps as differences to the batch header's."""

    offset_deltas: Sequence[int]
    timestamp_deltas: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


# --- reading -----------------------------------------------------------------------------------------------------------


def decode_records(payload: Buffer, count: int, last_offset_delta: int) -> KafkaRecords:
    """The ``count`` records of a payload; CorruptMessage if there are more or fewer, or a length or an offset lies."""
    if count * RECORD_SIZE_MIN > len(payload):
        raise CorruptMessage(f"payload of {len(payload)} bytes that says it holds {count} records")
    if not count:  # a gap, which has no payload
        return KafkaRecords(range(0), [], [], [], [])
    try:
        records = _decode(bytes(payload), count)
    except IndexError:
        raise CorruptMessage("record that goes past the end of its batch") from None
    if min(records.timestamp_deltas) < INT64_MIN or max(records.timestamp_deltas) > INT64_MAX:
        raise CorruptMessage("record with a timestamp of more than 64 bits")
    deltas = records.offset_deltas
    if deltas == list(range(count)):
        return records._replace(offset_deltas=range(count))
    if not rises_within(deltas, last_offset_delta):
        raise CorruptMessage(f"offset deltas that do not rise from 0 to {last_offset_delta}")
    return records


def decode_times(payload: Buffer, count: int, last_offset_delta: int) -> tuple[Sequence[int], list[int]]:
    """The offset and timestamp deltas of the records, and nothing else of them: a batch may have millions of headers."""
    if count * RECORD_SIZE_MIN > len(payload):
        raise CorruptMessage(f"payload of {len(payload)} bytes that says it holds {count} records")
    data = bytes(payload)
    offsets: list[int] = []
    timestamps: list[int] = []
    try:
        for position in _borders(data, count)[0]:
            number, behind = read_varint(data, position + 1)
            timestamps.append((number >> 1) ^ -(number & 1))
            number, _ = read_varint(data, behind)
            offsets.append((number >> 1) ^ -(number & 1))
    except IndexError:
        raise CorruptMessage("record that goes past the end of its batch") from None
    if not rises_within(offsets, last_offset_delta):
        raise CorruptMessage(f"offset deltas that do not rise from 0 to {last_offset_delta}")
    return offsets, timestamps


def check_first_record(payload: Buffer, count: int) -> None:
    """CorruptMessage if the payload cannot begin with the first of ``count`` records of a producer; the others are not read."""
    if count * RECORD_SIZE_MIN > len(payload):
        raise CorruptMessage(f"payload of {len(payload)} bytes that says it holds {count} records")
    begin = bytes(payload[: 3 * VARINT_SIZE_MAX + 1])
    number, position = read_varint(begin, 0)
    end = position + (number >> 1)
    _, position = read_varint(begin, position + 1)  # behind the attributes, the timestamp
    offset, _ = read_varint(begin, position)
    last = end == len(payload)
    if number & 1 or end > len(payload) or last != (count == 1) or offset != 0:
        raise CorruptMessage(f"payload of {len(payload)} bytes that does not begin with the first of {count} records")


def _decode(data: bytes, count: int) -> KafkaRecords:
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    negative = header_bytes = 0
    for position, end in zip(*_borders(data, count), strict=True):
        number = data[position + 1]  # the byte before, the record's attributes, has no meaning yet
        position += 2
        if number > 127:
            number += (data[position] - 1) << 7
            position += 1
            if number > TWO_BYTES_MAX:
                number, position = read_varint(data, position - 2)
        timestamps.append((number >> 1) ^ -(number & 1))
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] - 1) << 7
            position += 1
            if number > TWO_BYTES_MAX:
                number, position = read_varint(data, position - 2)
        offsets.append((number >> 1) ^ -(number & 1))
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] - 1) << 7
            position += 1
            if number > TWO_BYTES_MAX:
                number, position = read_varint(data, position - 2)
        if number & 1:
            keys.append(None)
            negative |= number
        else:
            keys.append(data[position : (position := position + (number >> 1))])
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] - 1) << 7
            position += 1
            if number > TWO_BYTES_MAX:
                number, position = read_varint(data, position - 2)
        if number & 1:
            values.append(None)
            negative |= number
        else:
            values.append(data[position : (position := position + (number >> 1))])
        if data[position]:
            header_bytes += end - position
            headers.append(_read_headers(data, position, end, header_bytes))
        elif position + 1 != end:
            raise CorruptMessage(f"record that ends {end - position - 1:+} bytes from where it says")
        else:
            headers.append(())
    if negative > 1:  # null is -1, which zigzag makes 1; all other odd numbers are negative lengths
        raise CorruptMessage("key or value of a negative length")
    return KafkaRecords(offsets, timestamps, keys, values, headers)


def _borders(data: bytes, count: int) -> tuple[list[int], list[int]]:
    """Where the records begin, behind their lengths, and where they end."""
    starts, ends = [], []
    position = odd = 0
    for _ in range(count):
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] - 1) << 7
            position += 1
            if number > TWO_BYTES_MAX:
                number, position = read_varint(data, position - 2)
        odd |= number
        starts.append(position)
        position += number >> 1
        ends.append(position)
    if odd & 1:
        raise CorruptMessage("record of a negative length")
    if position != len(data):
        raise CorruptMessage(f"{count} records of {position} bytes in a payload of {len(data)}")
    return starts, ends


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint (zigzag is the caller's) and the position behind it."""
    number = shift = 0
    for byte in data[position : position + VARINT_SIZE_MAX]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, position + shift // 7
    raise CorruptMessage("varint without an end")


def _read_headers(data: bytes, position: int, end: int, header_bytes: int) -> Headers:
    """The headers of one record, which must end where the record does."""
    if header_bytes > HEADERS_MAX:
        raise MessageTooLarge(f"a batch with more than {HEADERS_MAX} bytes of headers")
    count, position = read_varint(data, position)
    headers: list[tuple[str, bytes | None]] = []
    while position < end:
        size, position = read_varint(data, position)
        name = data[position : (position := position + (size >> 1))]
        if size & 1 or position >= end:
            raise CorruptMessage("header whose name is null or goes past its record")
        size, position = read_varint(data, position)
        if size & 1 and size != 1:
            raise CorruptMessage("header whose value has a negative length")
        value = None if size == 1 else data[position : (position := position + (size >> 1))]
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise CorruptMessage(f"header whose name is not UTF-8: {error}") from error
    if position != end or count != 2 * len(headers):
        raise CorruptMessage(f"headers that are not {count // 2} or end {position - end:+} bytes from their record")
    return tuple(headers)


# --- writing -----------------------------------------------------------------------------------------------------------


def encode_varint(number: int) -> bytes:
    """A signed number as a zigzag varint."""
    number = (number << 1) ^ (number >> 63)
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


class _Varints(dict[int, bytes]):
    """Every varint: those of one and two bytes by look-up, the others made on the way and not kept."""

    def __missing__(self, number: int) -> bytes:
        return encode_varint(number)


VARINTS = _Varints((number, encode_varint(number)) for number in range(-64, 2**13))

_NULL = VARINTS[-1]
_NO_HEADERS = VARINTS[0]


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[tuple[str, bytes | None]]] | None,
    timestamp_deltas: Sequence[int] | None,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """The payload of these records, offsets rising by one unless they are given."""
    varints = VARINTS
    offsets = range(len(values)) if offset_deltas is None else offset_deltas
    times = repeat(varints[0]) if timestamp_deltas is None else [varints[delta] for delta in timestamp_deltas]
    key_fields = repeat(_NULL) if keys is None else [_NULL if key is None else varints[len(key)] + key for key in keys]
    header_fields = repeat(_NO_HEADERS) if headers is None else _header_fields(headers)
    pieces: list[bytes] = []
    fields = zip(offsets, values, times, key_fields, header_fields, strict=False)  # some go on for ever
    for offset, value, time, key, header in fields:
        start = b"\0" + time + varints[offset] + key
        if value is None:
            pieces += (varints[len(start) + len(header) + 1], start, _NULL, header)
        else:
            size = varints[len(value)]
            pieces += (varints[len(start) + len(size) + len(value) + len(header)], start, size, value, header)
    return b"".join(pieces)


def _header_fields(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> list[bytes]:
    try:
        fields = [_header_field(pairs) if pairs else _NO_HEADERS for pairs in headers]
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"a header's name cannot be encoded as UTF-8: {error}") from error
    if sum(map(len, fields)) > HEADERS_MAX:
        raise MessageTooLarge(f"a batch with more than {HEADERS_MAX} bytes of headers")
    return fields


def _header_field(pairs: Sequence[tuple[str, bytes | None]]) -> bytes:
    pieces = [VARINTS[len(pairs)]]
    for name, value in pairs:
        encoded = name.encode()
        pieces += (VARINTS[len(encoded)], encoded)
        pieces += (_NULL,) if value is None else (VARINTS[len(value)], value)
    return b"".join(pieces)
