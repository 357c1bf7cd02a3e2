"""Batches and logs for the storage tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.wire.batch import HEADER_SIZE, MAGIC_KAFKA, Codec, build_batch, stamp
from ottla.wire.payload_check import STREAM_BEGINS

MakeBatch = Callable[..., memoryview]
OpenLog = Callable[..., Log]

TOPIC_ID = "topic-id-1"


def make_batch_bytes(count: int = 1, size: int = 100, timestamp: int = 1000, fill: int = 7) -> memoryview:
    """A produced batch of ``count`` records, ``size`` bytes in all; said to be compressed, so that nobody looks inside."""
    payload = STREAM_BEGINS[Codec.ZSTD].ljust(size - HEADER_SIZE, bytes([fill]))
    return memoryview(
        build_batch(
            payload,
            magic=MAGIC_KAFKA,
            attributes=Codec.ZSTD,
            count=count,
            first_timestamp=timestamp,
            max_timestamp=timestamp,
        )
    )


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    return make_batch_bytes


@pytest.fixture(scope="session")
def make_stamped() -> MakeBatch:
    def make(base_offset: int, epoch: int, count: int = 1, **more: int) -> memoryview:
        batch = make_batch_bytes(count, **more)
        stamp(batch, 0, base_offset, epoch)
        return batch

    return make


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[OpenLog]:
    """Opens the log in tmp_path/t-0; whatever is open at the end is let go of."""
    opened: list[Log] = []

    def open_it(
        *, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0,
        open_files: OpenFiles | None = None, **config: object,
    ) -> Log:  # fmt: skip
        log = Log.open(
            tmp_path / "t-0",
            TOPIC_ID,
            LogConfig(**config),  # type: ignore[arg-type]
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            open_files=open_files,
        )
        opened.append(log)
        return log

    yield open_it
    for log in opened:
        log.discard()
