"""The columnar payload byte by byte, and every way in which its columns can contradict one another."""

import struct

import msgspec
import pytest

from ottla.wire.columns import HEADERS_MAX, decode_columns, join_column, join_headers, split_column, split_headers
from ottla.wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge


def lengths(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


GOOD = [lengths(0, 1, 2), lengths(1, -1, 0), b"k", lengths(2, 0, 1), b"abc", None]


def payload(**changes: object) -> bytes:
    names = ["timestamps", "key_lengths", "keys", "value_lengths", "values", "headers"]
    columns: dict[str, object] = dict(zip(names, GOOD, strict=True)) | changes
    assert list(columns) == names
    return msgspec.msgpack.encode(list(columns.values()))


def test_untouched_columns_are_read():
    columns = decode_columns(payload(), 3)
    assert split_column(columns.key_lengths, columns.keys, 3) == [b"k", None, b""]
    assert split_column(columns.value_lengths, columns.values, 3) == [b"ab", b"", b"c"]


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamps": bytes(11)},
        {"timestamps": bytes(0)},
        {"timestamps": bytes(36)},
        {"timestamps": [0, 1, 2]},
        {"key_lengths": None},
        {"keys": None},
        {"key_lengths": lengths(1, -1)},
        {"key_lengths": lengths(1, -1, 0, 0)},
        {"key_lengths": lengths(2, -2, 1)},
        {"key_lengths": lengths(1, -(2**31), 0)},
        {"key_lengths": lengths(2, -1, 0)},
        {"value_lengths": lengths(1, 1, 2)},
        {"value_lengths": lengths(1, 1, 0)},
        {"value_lengths": lengths(2**31 - 1, 2**31 - 1, 5)},
        {"value_lengths": lengths(-1, -1, -1)},
        {"value_lengths": lengths(-2, -2, -2)},
        {"value_lengths": lengths(7, 7, 7)},
        {"value_lengths": b""},
        {"values": b"abcd"},
        {"values": "abc"},
        {"values": None},
        {"headers": []},
    ],
)
def test_columns_that_contradict_the_count_or_one_another_are_refused(changes):
    with pytest.raises(CorruptMessage):
        decode_columns(payload(**changes), 3)


@pytest.mark.parametrize("data", [b"", b"\xc0", b"\x95" + b"\xc0" * 5, b"\x97" + b"\xc0" * 7, b"\x91" * 5000, b"\xc1"])
def test_payload_that_is_not_six_columns_is_refused(data):
    with pytest.raises(CorruptMessage):
        decode_columns(data, 1)


def test_bytes_behind_the_columns_are_refused():
    with pytest.raises(CorruptMessage):
        decode_columns(payload() + b"\xc0", 3)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_items_of_one_length_are_split_as_others_are(count, size):
    items = [bytes([n % 251]) * size for n in range(count)]
    joined_lengths, data = join_column(items)
    assert joined_lengths is not None
    assert data is not None
    assert split_column(memoryview(joined_lengths), memoryview(data), count) == items


def test_null_is_not_empty():
    joined_lengths, data = join_column([None, b"", None])
    assert (joined_lengths, data) == (lengths(-1, 0, -1), b"")
    assert split_column(memoryview(lengths(-1, 0, -1)), memoryview(b""), 3) == [None, b"", None]


def test_column_of_nulls_takes_no_bytes():
    assert join_column([None, None]) == (None, None)


@pytest.mark.parametrize(
    "column",
    [
        b"",
        b"\x90",
        msgspec.msgpack.encode([[], []]),
        msgspec.msgpack.encode([[["name"]]]),
        msgspec.msgpack.encode([[["name", b"", b""]]]),
        msgspec.msgpack.encode([[[None, b""]]]),
        msgspec.msgpack.encode([[[b"name", b""]]]),
        msgspec.msgpack.encode([[["name", "text"]]]),
        msgspec.msgpack.encode([None]),
        b"\x91\x91\x92\xa1\xff\xc0",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
    ],
)
def test_headers_that_lie_are_refused(column):
    with pytest.raises(CorruptMessage):
        split_headers(memoryview(column), 1)


def test_more_headers_than_allowed_are_refused_on_both_sides():
    with pytest.raises(MessageTooLarge):
        join_headers([[("name", bytes(HEADERS_MAX))]])
    with pytest.raises(MessageTooLarge):
        split_headers(memoryview(bytes(HEADERS_MAX + 1)), 1)


def test_header_name_that_is_no_unicode_is_refused():
    with pytest.raises(InvalidRecord):
        join_headers([[("\ud800", b"")]])
