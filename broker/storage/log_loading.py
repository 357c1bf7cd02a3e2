"""From the files of a partition folder to open segments, by way of recovery where the files cannot be trusted."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.storage.epochs import EpochCache
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.partition_folder import holds_records
from ottla.broker.storage.producers.log_producers import LogProducers
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.recovery import RecoveryReport, recover
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segment_files import base_offsets, remove_leftovers
from ottla.wire.errors import CorruptMessage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Precautions:
    """What must be made durable before a log loses records, or says that it has them, so that no crash makes it a lie."""

    before_truncation: Callable[[int], None] = lambda offset: None
    """Called with the new log end offset: no recovery point may stay past it."""
    before_cut: Callable[[RecoveryReport], None] = lambda report: None
    """Called when recovery is about to cut."""
    before_first_flush: Callable[[], None] = lambda: None
    """Called by the first flush of a new log, and of one that is opened: the folder itself must be found again. Slow."""


@dataclass(slots=True)
class LoadedLog:
    """The parts of an opened log; the last segment is the active one."""

    segments: list[Segment]
    epochs: EpochCache
    recovery: RecoveryReport | None
    producers: LogProducers


def load_log(
    folder: Path,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    precautions: Precautions,
    producer_memory: ProducerMemory,
) -> LoadedLog:
    """Open what ``folder`` holds. A log that was closed cleanly is only glanced at. Slow."""
    remove_leftovers(folder)
    epochs = EpochCache.load(folder)
    report = None
    segments: list[Segment] = []
    recover_from = [recovery_point, 0]
    try:
        if clean and (
            epochs.entries or not holds_records(folder)
        ):  # records without epochs: a file of the log is missing
            segments = _open_segments(folder, config, log_start_offset)
    except CorruptMessage as error:
        logger.warning("log damaged though cleanly closed: folder=%s error=%s", folder, error)
        recover_from = [0]
    while not segments and recover_from:
        report = recover(
            folder,
            recovery_point=recover_from.pop(0),
            epochs=epochs,
            interval_bytes=config.index_interval_bytes,
            before_cut=precautions.before_cut,
        )
        if report is None:
            break  # there is nothing at all
        try:
            segments = _open_segments(folder, config, log_start_offset)
        except CorruptMessage as error:
            if not recover_from:
                raise
            logger.warning("log damaged before its recovery point: folder=%s error=%s", folder, error)
    if report is not None:
        _tell(folder, report)
    if not segments:
        segments = [Segment.create(folder, log_start_offset, config.index_interval_bytes)]
    epochs.truncate_from_end(segments[-1].next_offset)
    return LoadedLog(segments, epochs, report, LogProducers.load(folder, segments, producer_memory))


def _open_segments(folder: Path, config: LogConfig, log_start_offset: int) -> list[Segment]:
    """CorruptMessage if one does not begin where the one before ends [I27], unless nobody can read what is missing."""
    bases = base_offsets(folder)
    opened: list[Segment] = []
    try:
        for base in bases:
            if opened and opened[-1].next_offset != base > log_start_offset:
                raise CorruptMessage(f"segment {base} follows one that ends at offset {opened[-1].next_offset}")
            open_one = Segment.open_active if base == bases[-1] else Segment.open_sealed
            opened.append(open_one(folder, base, config.index_interval_bytes))
    except BaseException:
        for segment in opened:
            segment.close_files()
        raise
    return opened


def _tell(folder: Path, report: RecoveryReport) -> None:
    logger.log(
        logging.WARNING if report.bytes_cut else logging.INFO,
        "log recovered: folder=%s log_end_offset=%d segments_checked=%d bytes_checked=%d bytes_cut=%d "
        "segments_dropped=%d damaged=%s reason=%s",
        folder,
        report.log_end_offset,
        report.segments_checked,
        report.bytes_checked,
        report.bytes_cut,
        report.segments_dropped,
        report.damaged,
        report.reason or "none",
    )
