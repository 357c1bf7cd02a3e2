"""Small text files that must survive a power cut whole: the old version or the new one, never a mixture.

Kafka's checkpoint format: a version line, a line with the number of rows, then one row a line, columns split by blanks.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.wire.log_layout import CHECKPOINT_VERSION, parse_rows


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed names in ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, text: str, *, sync_data: bool = True, sync_name: bool = True) -> None:
    """Put ``text`` where ``path`` was, in one step, and durably unless the caller syncs it and its folder later."""
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(fd, left) :]
        if sync_data:
            os.fsync(fd)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk the part that was written is in the way
        raise
    finally:
        os.close(fd)
    temporary.replace(path)
    if sync_name:
        sync_folder(path.parent)


def write_rows(path: Path, rows: Iterable[Sequence[object]], *, durable: bool = True) -> None:
    """Write a checkpoint; one that is not durable may be lost in a power cut, but not in a crash."""
    lines = [" ".join(map(str, row)) for row in rows]
    text = "\n".join([CHECKPOINT_VERSION, str(len(lines)), *lines]) + "\n"
    replace_file(path, text, sync_data=durable, sync_name=durable)


def read_rows(path: Path, columns: int) -> list[list[str]]:
    """The rows of a checkpoint, none if there is no file. ValueError, saying what is wrong, if it is garbage."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    return parse_rows(text, columns)
