"""How a frame is spoilt: its bits, its lengths and counts, its head. Pure: a random generator and a frame in, bytes out."""

import random
import struct
from collections.abc import Callable
from typing import Final

Mutate = Callable[[random.Random, bytes], bytes]

LENGTH_SIZE: Final = 4
HEAD_SIZE: Final = 12
"""The length, api, version and correlation id."""

DELETE_TOPICS: Final = 20

REPEATED_MAX: Final = 60_000
"""Below what a connection may send before it has sent anything sensible."""

_COUNTS: Final = (-(2**31), -2, -1, 0, 1, 127, 128, 32_768, 65_536, 200_000, 200_001, 2**24, 2**31 - 1)
_VARINTS: Final = (
    b"\x00",
    b"\xff\x7f",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9,
)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_SIZE, "big") + body


def flip_bits(source: random.Random, frame: bytes) -> bytes:
    spoilt = bytearray(frame)
    for _ in range(source.choice((1, 1, 2, 4, 8))):
        spoilt[source.randrange(LENGTH_SIZE, len(spoilt))] ^= 1 << source.randrange(8)
    return bytes(spoilt)


def set_bytes(source: random.Random, frame: bytes) -> bytes:
    spoilt = bytearray(frame)
    for _ in range(source.choice((1, 2, 4))):
        spoilt[source.randrange(LENGTH_SIZE, len(spoilt))] = source.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
    return bytes(spoilt)


def cut(source: random.Random, frame: bytes) -> bytes:
    """Too short, and it says so."""
    return framed(frame[LENGTH_SIZE : source.randrange(LENGTH_SIZE + 1, len(frame))])


def extend(source: random.Random, frame: bytes) -> bytes:
    return framed(frame[LENGTH_SIZE:] + source.randbytes(source.randrange(1, 500)))


def counts(source: random.Random, frame: bytes) -> bytes:
    """Counts and lengths of any size, where there may be one."""
    spoilt = bytearray(frame)
    for _ in range(source.choice((1, 1, 2))):
        at = source.randrange(HEAD_SIZE, max(HEAD_SIZE + 1, len(spoilt) - 4))
        number = source.choice(_COUNTS)
        kind = source.randrange(3)
        if kind == 0:
            spoilt[at : at + 4] = struct.pack(">i", number)
        elif kind == 1:
            spoilt[at : at + 2] = struct.pack(">h", max(-32_768, min(32_767, number)))
        else:
            spoilt[at : at + 1] = source.choice(_VARINTS)
    return framed(bytes(spoilt[LENGTH_SIZE:]))


def repeat(source: random.Random, frame: bytes) -> bytes:
    """A piece of it, many times: arrays in arrays, if their counts agree."""
    at = source.randrange(HEAD_SIZE, len(frame))
    piece = frame[at : at + source.randrange(1, 40)]
    times = source.randrange(2, max(3, (REPEATED_MAX - len(frame)) // len(piece)))
    return framed((frame[LENGTH_SIZE:at] + piece * times + frame[at:])[:REPEATED_MAX])


def wrong_version(source: random.Random, frame: bytes) -> bytes:
    version = source.choice((source.randrange(-32768, 32768), source.randrange(20), -1, 32767))
    return frame[:6] + struct.pack(">h", version) + frame[8:]


def wrong_api(source: random.Random, frame: bytes) -> bytes:
    """Never DeleteTopics: it looks like Metadata, and would delete the topics that are to be attacked."""
    api = source.choice((source.randrange(128), source.randrange(128), source.randrange(-32768, 32768)))
    return frame if api == DELETE_TOPICS else frame[:4] + struct.pack(">h", api) + frame[6:]


def junk_body(source: random.Random, frame: bytes) -> bytes:
    """Random bytes behind a good head."""
    end = HEAD_SIZE + 2 + int.from_bytes(frame[HEAD_SIZE : HEAD_SIZE + 2], "big")
    return framed(frame[LENGTH_SIZE:end] + source.randbytes(source.randrange(300)))


def junk_frame(source: random.Random, frame: bytes) -> bytes:
    """Random bytes in a frame."""
    return framed(source.randbytes(source.randrange(1, 300)))


def junk(source: random.Random, frame: bytes) -> bytes:
    """Random bytes."""
    return source.randbytes(source.randrange(1, 300))


def wrong_length(source: random.Random, frame: bytes) -> bytes:
    """A frame that lies about its length."""
    size = len(frame) - LENGTH_SIZE
    length = source.choice(
        (0, -1, -(2**31), 2**31 - 1, 100 * 1024 * 1024, size - 1, size + 1, size * 2, 65_536, 65_537)
    )
    return struct.pack(">i", length) + frame[LENGTH_SIZE:]


MUTATIONS: Final[dict[str, Mutate]] = {
    "flipped bits": flip_bits,
    "extreme bytes": set_bytes,
    "cut": cut,
    "extended": extend,
    "counts and lengths": counts,
    "repetition": repeat,
    "wrong version": wrong_version,
    "wrong api": wrong_api,
    "junk behind a good head": junk_body,
    "junk in a frame": junk_frame,
    "junk": junk,
    "wrong length": wrong_length,
}
