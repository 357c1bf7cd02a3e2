"""How long a change of leader keeps the event loop from everything else: on one log folder, without sockets."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ottla.bench.rows import Row, at_most, save, show
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_batch
from ottla.wire.payload_check import STREAM_BEGINS

PARTITIONS = 100
LOG_MB = 100
BATCH_BYTES = 1000
TAIL_BATCHES = 200
"""What is cut: more batches of a producer than a log remembers."""


def run(scale: float, out: Path) -> list[Row]:
    """Measure, print and save."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        rows = show([*_becoming_leader(Path(folder), scale), *_cuts(Path(folder), scale)])
    save(rows, out / "event-loop.json")
    return rows


def _becoming_leader(folder: Path, scale: float) -> list[Row]:
    logs = [_open(folder / f"t-{number}") for number in range(max(1, int(PARTITIONS * scale)))]
    for log in logs:
        _append(log, 0, 1)

    def lead() -> None:
        for log in logs:
            log.assign_epoch(1)

    def write() -> None:
        for log in logs:
            _append(log, 1, 1)

    led, written = _ms(lead), _ms(write)
    for log in logs:
        log.close()
    return [
        at_most(f"{len(logs)} partitions: becoming their leader", led, "ms", 20),
        at_most(f"{len(logs)} partitions: the first batch of each after that", written, "ms", 50),
    ]


def _cuts(folder: Path, scale: float) -> list[Row]:
    batches = int(LOG_MB * scale * 1e6) // BATCH_BYTES
    log = _open(folder / "cut-0")
    _append(log, 0, batches)
    tail = _ms(lambda: log.truncate_to(log.log_end_offset - TAIL_BATCHES))
    held = log.read(0, 1 << 20, up_to=log.log_end_offset, at_least_one=True)
    under_reader = _ms(lambda: log.truncate_to(log.log_end_offset - TAIL_BATCHES))
    held.clear()
    log.discard()
    return [
        at_most(f"log of {LOG_MB * scale:.0f} MB: cutting {TAIL_BATCHES} batches", tail, "ms", 20),
        at_most(f"log of {LOG_MB * scale:.0f} MB: the same while a consumer holds a slice", under_reader, "ms", 20),
    ]


def _open(folder: Path) -> Log:
    return Log.open(folder, "id", LogConfig(), clean=True)


def _append(log: Log, epoch: int, batches: int) -> None:
    """Batches of one idempotent producer."""
    payload = STREAM_BEGINS[Codec.ZSTD].ljust(BATCH_BYTES - 61, b".")
    for sequence in range(log.log_end_offset, log.log_end_offset + batches):
        batch = build_batch(
            payload, magic=MAGIC_KAFKA, attributes=Codec.ZSTD, count=1, first_timestamp=0, max_timestamp=0,
            producer_id=7, producer_epoch=0, base_sequence=sequence,
        )  # fmt: skip
        log.append_as_leader(memoryview(batch), epoch, 0)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
