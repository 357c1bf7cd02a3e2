"""The file that saves reading the whole log for its producers: what was known at an offset. Disposable.

After a magic number and a checksum come pieces, each with its length: first what concerns the whole partition, then some
producers each. A thread writes it while the event loop runs, and one encoding of all producers would keep the loop waiting.
"""

import threading
import time
from itertools import count
from pathlib import Path

import msgspec
from crc32c import crc32c

from ottla.broker.storage.producers.decision import Entry, packed
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.producers.states import ProducerStates

FILE_NAME = "producers.snapshot"
TEMPORARY_SUFFIX = ".tmp"

MAGIC = b"OPS2"
PRODUCERS_PER_PIECE = 500

_head_decoder = msgspec.msgpack.Decoder(tuple[int, bool, list[tuple[int, int, float, bool]]])
_piece_decoder = msgspec.msgpack.Decoder(list[tuple[int, int, float, bytes]])
_old_decoder = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, int, list[tuple[int, int, int, int]]]]])
"""Of releases that wrote all in one piece."""


class SnapshotFile:
    """The file of one log. Whatever makes a snapshot wrong calls ``forget``, also while one is being written in a thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._version = 0
        """How often the file was forgotten."""
        self._number = count()

    @property
    def version(self) -> int:
        return self._version

    def write(self, snapshot: "Snapshot") -> bool:
        """Replace the file, unless it was forgotten since the snapshot was taken; whether it was not. Slow.

        A crash leaves the old file or a bad one.
        """
        temporary = self._path.with_name(f"{FILE_NAME}.{next(self._number)}{TEMPORARY_SUFFIX}")
        try:
            temporary.write_bytes(snapshot.encode())
            with self._lock:
                if self._version != snapshot.version:
                    return False
                temporary.replace(self._path)
                return True
        finally:
            temporary.unlink(missing_ok=True)

    def forget(self) -> None:
        """What stands there, and what is being written, is not so any more."""
        with self._lock:
            self._version += 1
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let no thread write any more: the folder may be another log's by then."""
        with self._lock:
            self._version += 1


class Snapshot:
    """What is known before ``offset``, copied on the event loop to be written in a thread."""

    def __init__(self, offset: int, states: ProducerStates, version: int) -> None:
        self.offset = offset
        self.version = version
        self._taken_s = time.monotonic()
        self._has_expired = states.has_expired
        self._evicted = states.evicted(self._taken_s)
        self._entries: list[tuple[int, Entry]] = states.entries()

    def encode(self) -> bytes:
        pieces = [msgspec.msgpack.encode((self.offset, self._has_expired, self._evicted))]
        for start in range(0, len(self._entries), PRODUCERS_PER_PIECE):
            some = self._entries[start : start + PRODUCERS_PER_PIECE]
            pieces.append(
                msgspec.msgpack.encode(
                    [(number, entry.epoch, self._taken_s - entry.last_used_s, entry.packed) for number, entry in some]
                )
            )
        body = b"".join(part for piece in pieces for part in (len(piece).to_bytes(4, "big"), piece))
        return MAGIC + crc32c(body).to_bytes(4, "big") + body


def load_producers(folder: Path, memory: ProducerMemory) -> tuple[int, ProducerStates]:
    """What was saved, and the offset to go on reading the log from; 0 and nothing if there is no good file."""
    producers = ProducerStates(memory)
    try:
        data = (folder / FILE_NAME).read_bytes()
        return (_load if data[:4] == MAGIC else _load_old)(data, producers), producers
    except (OSError, msgspec.MsgspecError):
        return 0, ProducerStates(memory)


def _load(data: bytes, producers: ProducerStates) -> int:
    body = memoryview(data)[8:]
    if int.from_bytes(data[4:8], "big") != crc32c(body):
        return 0
    pieces = []
    while body:
        size = int.from_bytes(body[:4], "big")
        pieces.append(body[4 : 4 + size])
        body = body[4 + size :]
    offset, producers.has_expired, evicted = _head_decoder.decode(pieces[0])
    now_s = time.monotonic()
    producers.restore_evicted(evicted, now_s)
    for piece in pieces[1:]:
        for producer_id, epoch, age_s, batches in _piece_decoder.decode(piece):
            producers.restore(producer_id, Entry(epoch, batches, now_s - age_s))
    return offset


def _load_old(data: bytes, producers: ProducerStates) -> int:
    if int.from_bytes(data[:4], "big") != crc32c(data[4:]):
        return 0
    offset, dumped = _old_decoder.decode(data[4:])
    now_s = time.monotonic()
    for producer_id, epoch, batches in dumped:
        producers.restore(producer_id, Entry(epoch, packed(batches), now_s))
    return offset
