"""Recovery: make the folder of a log that was not closed look as if it had been.

Every batch from the recovery point on is checked: CRC, length, and what no CRC covers: that its base offset is where the batch
before ends, and its leader epoch against the epoch cache. At the first bad batch the log is cut and all later segments go (a
shorter log that is true beats a longer one that lies; the leader sends the rest again). The plan is made before anything is
changed. Slow: for a thread.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.storage.checkpoint_file import sync_folder
from ottla.broker.storage.epochs import EpochCache, EpochStart
from ottla.broker.storage.segments.index import RELATIVE_OFFSET_MAX, SegmentIndex
from ottla.broker.storage.segments.mapped_file import read_exactly
from ottla.broker.storage.segments.segment_files import (
    base_offsets,
    mark_deleted,
    remove_index,
    remove_leftovers,
    save_index,
    segment_path,
)
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, check_batch
from ottla.wire.errors import OttlaError
from ottla.wire.names import NO_EPOCH

WINDOW_SIZE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What recovery found and did."""

    log_end_offset: int
    segments_checked: int
    bytes_checked: int
    bytes_cut: int
    segments_dropped: int
    reason: str
    """Why the log was cut; empty if it was whole."""
    damaged: bool
    """Something else was cut than an append that a crash interrupted, so records may be lost that were once acked."""


@dataclass(slots=True)
class _Scan:
    """One segment after the check: good up to ``end``, and why not further."""

    index: SegmentIndex
    next_offset: int
    size: int
    end: int = 0
    reason: str = ""
    torn: bool = False


class _EpochCheck:
    """Leader epochs against the cache; if the cache was lost, the entries for a new one."""

    def __init__(self, epochs: EpochCache) -> None:
        self._epochs = epochs
        self.lost = not epochs.entries
        self.found: list[EpochStart] = []

    def check(self, header: BatchHeader) -> None:
        epoch = header.leader_epoch
        if self.lost:
            latest = self.found[-1].epoch if self.found else NO_EPOCH
            if epoch < max(latest, 0):
                raise BadBatch(f"leader epoch {epoch} after epoch {latest}")
            if epoch > latest:
                self.found.append(EpochStart(epoch, header.base_offset))
            return
        # The cache forgets what lies before the log start offset: there it has nothing to say.
        known = self._epochs.epoch_at(header.base_offset)
        if known not in (epoch, NO_EPOCH):
            raise BadBatch(f"leader epoch {epoch} where the epoch cache says {known}")

    def mend(self, log_end: int) -> None:
        if self.lost:
            self._epochs.restore(self.found)
        else:
            self._epochs.truncate_from_end(log_end)


class BadBatch(Exception):
    """A batch that must not stay in the log; ``torn`` if the file merely ends too early."""

    def __init__(self, reason: str, *, torn: bool = False) -> None:
        super().__init__(reason)
        self.torn = torn


def recover(
    folder: Path,
    *,
    recovery_point: int,
    epochs: EpochCache,
    interval_bytes: int,
    before_cut: Callable[[RecoveryReport], None] | None = None,
) -> RecoveryReport | None:
    """Check the log in ``folder`` from ``recovery_point`` on and cut what is bad; None if it has no segments.

    ``before_cut`` is called before anything is removed, so that a loss can be noted durably first.
    """
    remove_leftovers(folder)
    bases = base_offsets(folder)
    if not bases:
        return None
    # All segments from the one that holds the recovery point on; the last one always.
    first = max((number for number, base in enumerate(bases) if base <= recovery_point), default=0)
    epoch_check = _EpochCheck(epochs)
    if epoch_check.lost:
        first = 0
    scans, hole = _scan_all(folder, bases[first:], epoch_check, interval_bytes)
    dropped = bases[first + len(scans) :]
    report = _report(folder, scans, dropped, hole)
    if report.reason and before_cut is not None:
        before_cut(report)
    for base in reversed(dropped):
        mark_deleted(folder, base)
    for scan in scans:
        _apply(folder, scan)
    epoch_check.mend(report.log_end_offset)
    remove_leftovers(folder)
    sync_folder(folder)
    return report


def _scan_all(folder: Path, bases: list[int], epochs: _EpochCheck, interval_bytes: int) -> tuple[list[_Scan], str]:
    scans: list[_Scan] = []
    for base in bases:
        if scans and base != scans[-1].next_offset:
            return scans, f"segment {base} follows one that ends at offset {scans[-1].next_offset}"
        scans.append(_scan_segment(segment_path(folder, base), SegmentIndex(base, interval_bytes), epochs))
        if scans[-1].reason:
            break
    return scans, ""


def _scan_segment(path: Path, index: SegmentIndex, epochs: _EpochCheck) -> _Scan:
    fd = os.open(path, os.O_RDONLY)
    try:
        scan = _Scan(index, index.base_offset, os.fstat(fd).st_size)
        try:
            _scan_batches(fd, scan, epochs)
        except BadBatch as bad:
            scan.reason, scan.torn = f"{path.name} at position {scan.end}: {bad}", bad.torn
        return scan
    finally:
        os.close(fd)


def _scan_batches(fd: int, scan: _Scan, epochs: _EpochCheck) -> None:
    # Read, not mapped: a disk error must be an OSError of this log, not the end of the process.
    window_size = WINDOW_SIZE
    while scan.end < scan.size:
        window = memoryview(read_exactly(fd, scan.end, min(window_size, scan.size - scan.end)))
        at = 0
        while at < len(window):
            size = _claimed_size(window, at, left=scan.size - scan.end)
            if at + size > len(window):
                break
            _take(scan, _check(window, at, scan, epochs))
            at += size
        window_size = WINDOW_SIZE if at else max(WINDOW_SIZE, size)


def _claimed_size(window: memoryview, at: int, left: int) -> int:
    """The size of the batch at ``at``, which must fit into the ``left`` bytes of the file."""
    if left < HEADER_SIZE:
        raise BadBatch(f"{left} bytes are less than a batch header", torn=True)
    if len(window) - at < HEADER_SIZE:
        return HEADER_SIZE
    size = int.from_bytes(window[at + 8 : at + LENGTH_OVERHEAD], "big", signed=True) + LENGTH_OVERHEAD
    if size > left:
        raise BadBatch(f"a batch of {size} bytes where {left} are left", torn=True)
    if size < HEADER_SIZE:
        raise BadBatch(f"a batch of {size} bytes")
    return size


def _check(window: memoryview, at: int, scan: _Scan, epochs: _EpochCheck) -> BatchHeader:
    try:
        header = check_batch(window, at)
    except OttlaError as error:
        raise BadBatch(str(error)) from None
    # Invariant [I27]: batches tile a log, so a base offset with a flipped bit, which no CRC covers, cannot pass.
    if header.base_offset != scan.next_offset:
        raise BadBatch(f"base offset {header.base_offset} where {scan.next_offset} was due")
    if header.last_offset - scan.index.base_offset > RELATIVE_OFFSET_MAX:
        raise BadBatch(f"offset {header.last_offset} is too far from the segment's base")
    epochs.check(header)
    return header


def _take(scan: _Scan, header: BatchHeader) -> None:
    scan.index.add(header.last_offset, scan.end, header.size, header.max_timestamp)
    scan.next_offset = header.next_offset
    scan.end += header.size


def _report(folder: Path, scans: list[_Scan], dropped: list[int], hole: str) -> RecoveryReport:
    last = scans[-1]
    dropped_bytes = sum(segment_path(folder, base).stat().st_size for base in dropped)
    return RecoveryReport(
        log_end_offset=last.next_offset,
        segments_checked=len(scans),
        bytes_checked=sum(scan.end for scan in scans),
        bytes_cut=last.size - last.end + dropped_bytes,
        segments_dropped=len(dropped),
        reason=last.reason or hole,
        damaged=bool(dropped) or bool(last.reason and not last.torn),
    )


def _apply(folder: Path, scan: _Scan) -> None:
    base = scan.index.base_offset
    if scan.end < scan.size:
        fd = os.open(segment_path(folder, base), os.O_RDWR)
        try:
            os.ftruncate(fd, scan.end)
            os.fsync(fd)
        finally:
            os.close(fd)
    remove_index(folder, base)
    if scan.end:
        scan.index.finish()
    save_index(folder, scan.index)
