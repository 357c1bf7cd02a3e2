"""The file that saves reading the whole log for its producers: what was known at an offset. Disposable."""

from pathlib import Path

import msgspec
from crc32c import crc32c

from ottla.broker.storage.producers.states import ProducerStates

FILE_NAME = "producers.snapshot"

_Dumped = list[tuple[int, int, list[tuple[int, int, int, int]]]]
_decoder = msgspec.msgpack.Decoder(tuple[int, _Dumped])


def save_producers(folder: Path, offset: int, producers: ProducerStates) -> None:
    """Write what is known of producers before ``offset``; a crash in between leaves the old file or a bad one."""
    body = msgspec.msgpack.encode((offset, producers.dump()))
    path = folder / FILE_NAME
    temporary = path.with_name(FILE_NAME + ".tmp")
    temporary.write_bytes(crc32c(body).to_bytes(4, "big") + body)
    temporary.replace(path)


def load_producers(folder: Path) -> tuple[int, ProducerStates]:
    """What was saved, and the offset to go on reading the log from; 0 and nothing if there is no good file."""
    producers = ProducerStates()
    try:
        data = (folder / FILE_NAME).read_bytes()
        if int.from_bytes(data[:4], "big") != crc32c(data[4:]):
            return 0, producers
        offset, dumped = _decoder.decode(data[4:])
    except (OSError, msgspec.MsgspecError):
        return 0, producers
    producers.restore(dumped)
    return offset, producers


def forget_producers(folder: Path) -> None:
    (folder / FILE_NAME).unlink(missing_ok=True)
