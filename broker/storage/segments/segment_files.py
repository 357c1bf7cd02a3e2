"""The files of a partition folder by name: segments, their indexes, and what crashes leave behind."""

import logging
import os
from pathlib import Path

from ottla.broker.storage.disk_health import is_shortage
from ottla.broker.storage.segments.index import SegmentIndex
from ottla.wire.log_layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, is_offset, segment_name

logger = logging.getLogger(__name__)

DELETED_SUFFIX = ".deleted"
TEMPORARY_SUFFIX = ".tmp"
LEFTOVER_SUFFIXES = (TEMPORARY_SUFFIX, DELETED_SUFFIX, ".swap", ".cleaned")
"""Ends of names that no living file has: unfinished copies and files that were being deleted."""


def segment_path(folder: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    return folder / segment_name(base_offset, suffix)


def base_offsets(folder: Path) -> list[int]:
    """The base offsets of all segments in ``folder``, rising."""
    return sorted(int(path.stem) for path in folder.glob(f"*{LOG_SUFFIX}") if is_offset(path.stem))


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what a crash left: unfinished copies, half-deleted files, indexes without a segment. Gives their names."""
    removed = []
    for path in sorted(folder.iterdir()):
        orphan = (
            path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
            and is_offset(path.stem)
            and not path.with_suffix(LOG_SUFFIX).exists()
        )
        if orphan or path.name.endswith(LEFTOVER_SUFFIXES):
            path.unlink()
            removed.append(path.name)
    return removed


def save_index(folder: Path, index: SegmentIndex) -> None:
    """Write both index files. Not synced: they are disposable until a flush makes them durable.

    Without room or descriptors there are none: whoever needs the index reads the segment's batch headers again.
    """
    offset_entries, time_entries = index.encode()
    try:
        segment_path(folder, index.base_offset, INDEX_SUFFIX).write_bytes(offset_entries)
        segment_path(folder, index.base_offset, TIME_INDEX_SUFFIX).write_bytes(time_entries)
    except OSError as error:
        if not is_shortage(error):
            raise
        remove_index(folder, index.base_offset)
        logger.warning("index not written: folder=%s base_offset=%d error=%s", folder, index.base_offset, error)


def sync_index(folder: Path, base_offset: int) -> None:
    """Make both index files durable, if they are (still) there. Slow."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        try:
            with segment_path(folder, base_offset, suffix).open("rb") as file:
                os.fdatasync(file.fileno())
        except FileNotFoundError:
            pass


def load_index(folder: Path, base_offset: int, interval_bytes: int, segment_size: int) -> SegmentIndex | None:
    """The index that the files hold; None if they are missing, torn or cannot belong to the segment."""
    try:
        return SegmentIndex.decode(
            base_offset,
            interval_bytes,
            segment_path(folder, base_offset, INDEX_SUFFIX).read_bytes(),
            segment_path(folder, base_offset, TIME_INDEX_SUFFIX).read_bytes(),
            segment_size,
        )
    except (FileNotFoundError, ValueError):
        return None


def remove_index(folder: Path, base_offset: int) -> None:
    """Remove both index files, if they are there."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        segment_path(folder, base_offset, suffix).unlink(missing_ok=True)


def mark_deleted(folder: Path, base_offset: int) -> None:
    """Rename a segment's files, the log first: from then on no restart sees it. Unlinking is slow and comes later."""
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = segment_path(folder, base_offset, suffix)
        try:
            path.replace(path.with_name(path.name + DELETED_SUFFIX))
        except FileNotFoundError:
            if suffix == LOG_SUFFIX:
                raise
