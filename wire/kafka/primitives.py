"""Kafka's primitive types: read from a view without copying records, written to a bytearray."""

import struct
from collections.abc import Iterator
from typing import Any, Final

from ottla.wire.breath import BREATH, let_others_run
from ottla.wire.errors import InvalidRequest
from ottla.wire.request_limits import LongRequest

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

ELEMENTS_MAX: Final = 400_000
"""Elements and tagged fields of what is read, unless its reader is given another limit (request_limits.py)."""

NO_UUID: Final = bytes(16)


class Reader:
    """A place in a request. InvalidRequest if it ends too early."""

    __slots__ = ("_elements", "_view", "elements_max", "flexible", "inline_max", "position")

    def __init__(self, view: memoryview, position: int, flexible: bool, elements_max: int = ELEMENTS_MAX) -> None:
        self._view = view
        self._elements = 0
        self.elements_max = elements_max
        """How many elements and tagged fields there may be, at all depths together."""
        self.inline_max = elements_max
        """With more, LongRequest is raised."""
        self.position = position
        self.flexible = flexible
        """Whether lengths are varints, and structures end with tagged fields."""

    @property
    def elements(self) -> int:
        """How many elements and tagged fields there were so far."""
        return self._elements

    @property
    def left(self) -> int:
        return len(self._view) - self.position

    def _step(self, size: int) -> int:
        position = self.position
        if size < 0 or size > len(self._view) - position:
            raise InvalidRequest(f"the request ends where {size} bytes more should be")
        self.position = position + size
        return position

    def int8(self) -> int:
        value = self._view[self._step(1)]
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        return int(INT16.unpack_from(self._view, self._step(2))[0])

    def int32(self) -> int:
        return int(INT32.unpack_from(self._view, self._step(4))[0])

    def int64(self) -> int:
        return int(INT64.unpack_from(self._view, self._step(8))[0])

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._view[self._step(1)]
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 28:
                raise InvalidRequest("a number of more than five bytes")

    def text(self) -> str | None:
        """A string that may be null."""
        size = self.uvarint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        start = self._step(size)
        try:
            return str(self._view[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"a text that is not UTF-8: {error}") from None

    def data(self) -> memoryview | None:
        """Bytes that may be null: a view, not a copy."""
        size = self.uvarint() - 1 if self.flexible else self.int32()
        if size < 0:
            return None
        start = self._step(size)
        return self._view[start : start + size]

    def uuid(self) -> bytes:
        start = self._step(16)
        return bytes(self._view[start : start + 16])

    def unpack(self, packed: struct.Struct) -> Any:
        return packed.unpack_from(self._view, self._step(packed.size))[0]

    def count_or_null(self) -> int | None:
        """How many elements an array has, if it is not null."""
        count = self.uvarint() - 1 if self.flexible else self.int32()
        if count < 0:
            return None
        self._count(count)
        return count

    def _count(self, count: int) -> None:
        """So many elements, or tagged fields, stand here."""
        self._elements += count
        if count > self.left or self._elements > self.elements_max:  # each has a byte at least
            raise InvalidRequest(
                f"{count} elements in one place, {self._elements} in all; {self.left} bytes are left, and at most"
                f" {self.elements_max} elements and tagged fields allowed"
            )
        if self._elements > self.inline_max:
            raise LongRequest

    def count(self) -> int:
        """How many elements an array has; 0 for null."""
        return self.count_or_null() or 0

    def tags(self) -> None:
        """Pass tagged fields over."""
        if self.flexible:
            count = self.uvarint()
            if count:
                self._count(count)
            for number in range(1, count + 1):
                self.uvarint()
                self._step(self.uvarint())
                if not number % BREATH:
                    let_others_run()

    def tagged(self) -> Iterator[tuple[int, "Reader"]]:
        """The tagged fields that stand here: the number of each, and a reader of it alone."""
        count = self.uvarint()
        self._count(count)
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            start = self._step(size)
            inner = Reader(self._view[start : start + size], 0, True, self.elements_max)
            inner._elements, inner.inline_max = self._elements, self.inline_max
            yield tag, inner
            self._elements = inner._elements


# --- writing -------------------------------------------------------------------------------------------------------------


def add_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def add_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        add_uvarint(out, count + 1)
    else:
        out += INT32.pack(count)


def add_text(out: bytearray, text: str | None, flexible: bool) -> None:
    if text is None:
        out += b"\x00" if flexible else b"\xff\xff"
        return
    data = text.encode()
    if flexible:
        add_uvarint(out, len(data) + 1)
    else:
        out += INT16.pack(len(data))
    out += data
