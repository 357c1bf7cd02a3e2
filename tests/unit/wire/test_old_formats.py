"""Messages of the formats before magic 2: what a broker says to who produces them."""

import struct
import zlib

import pytest

from ottla.wire.batch import HEADER_SIZE, check_batch, check_produced
from ottla.wire.errors import CorruptMessage, UnsupportedForMessageFormat
from ottla.wire.records import encode_batch


def message(magic: int, value: bytes) -> bytes:
    """A message set of one message, as Kafka's clients wrote it before 0.11."""
    timestamp = struct.pack(">q", 1_700_000_000_000) if magic == 1 else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 20, 27, 28, 100])
def test_messages_of_an_old_format_are_refused_as_such_however_short(magic: int, size: int, count: int) -> None:
    sent = message(magic, b"x" * size) * count
    with pytest.raises(UnsupportedForMessageFormat, match=f"magic {magic}"):
        check_produced(memoryview(bytearray(sent)))


def test_what_is_no_message_of_an_old_format_either_is_corrupt() -> None:
    batch = bytes(encode_batch([b"value"], timestamps=1))
    zeros = bytes(HEADER_SIZE - 1)  # a size of 0 is none
    for sent in (batch[: HEADER_SIZE - 1], batch[:16], message(1, b"x" * 9)[:-1], message(0, b"")[:16], zeros):
        with pytest.raises(CorruptMessage):
            check_produced(memoryview(bytearray(sent)))


def test_in_a_log_they_are_a_torn_batch() -> None:
    """Recovery cuts the log there, as at any bytes that are no batch."""
    with pytest.raises(CorruptMessage):
        check_batch(message(0, b"x"))
