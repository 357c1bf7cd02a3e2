"""Damages the files of a partition: removes its folder, cuts its log, or flips a bit. Used by targets, also inside containers.

As a program: ``python -m ottla.chaos.targets.damage ACTION FOLDER``.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ottla.wire.batch import read_header
from ottla.wire.errors import CorruptMessage
from ottla.wire.log_layout import HIGH_WATERMARKS, RECOVERY_POINTS, parse_offsets, parse_rows


def remove_folder(folder: Path) -> None:
    """Delete the partition folder, as an operator does by mistake."""
    shutil.rmtree(folder)


def empty_log(folder: Path) -> None:
    """Leave one segment of 0 bytes."""
    if not _checkpointed_end(folder):
        return remove_folder(folder)
    first, *others = _segments(folder)
    for path in others:
        _remove_segment(path)
    return _cut(first, 0)


def cut_log(folder: Path) -> None:
    """Cut the log below its checkpoints, where a batch ends: every batch that is left is intact.

    After a crash, nobody can see a loss that is younger than the checkpoints. If there is none, the folder goes.
    """
    end = _checkpointed_end(folder)
    if not end:
        return remove_folder(folder)
    for path in _segments(folder):
        kept = [batch.end for batch in _batches(path) if batch.next_offset <= end // 2]
        if kept or path == _segments(folder)[0]:
            _cut(path, kept[-1] if kept else 0)
        else:
            _remove_segment(path)
    return None


def flip_bit(folder: Path) -> None:
    """Flip one bit of a record in the first quarter of the log. The file keeps its size, and the broker may have it open."""
    batches = [(path, batch.end) for path in _segments(folder) for batch in _batches(path)]
    path, end = batches[len(batches) // 4]
    with path.open("r+b") as file:
        file.seek(end - 1)
        byte = file.read(1)[0]
        file.seek(end - 1)
        file.write(bytes([byte ^ 0x01]))


class _Batch(NamedTuple):
    """Where a batch ends in its file, and the offset after its last record."""

    end: int
    next_offset: int


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _batches(segment: Path) -> list[_Batch]:
    """The complete batches of a segment."""
    data, found, position = segment.read_bytes(), list[_Batch](), 0
    while position < len(data):
        try:
            header = read_header(data, position)
        except CorruptMessage:  # the broker is writing this batch
            break
        position += header.size
        found.append(_Batch(position, header.next_offset))
    return found


def _checkpointed_end(folder: Path) -> int:
    """The offset before which the log is known to have had records."""
    ends = [0]
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        path = folder.parent / name
        if path.exists():
            offsets = parse_offsets(parse_rows(path.read_text(), columns=3))
            ends += [end for where, end in offsets.items() if str(where) == folder.name]
    return max(ends)


def _cut(segment: Path, size: int) -> None:
    with segment.open("r+b") as file:
        file.truncate(size)
    for suffix in (".index", ".timeindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)


def _remove_segment(segment: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "remove-folder": remove_folder,
    "empty-log": empty_log,
    "cut-log": cut_log,
    "flip-bit": flip_bit,
}

LOSSES = ("remove-folder", "empty-log", "cut-log")
"""The damages after which records are missing."""


if __name__ == "__main__":
    DAMAGES[sys.argv[1]](Path(sys.argv[2]))
