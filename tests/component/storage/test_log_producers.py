"""What a log knows of its producers, across restarts: snapshots that a thread writes, and evictions that are remembered."""

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.producers import snapshot as snapshot_module
from ottla.broker.storage.producers.decision import SENT_BYTES
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.producers.snapshot import FILE_NAME, Snapshot
from ottla.broker.storage.producers.states import ENTRY_BYTES
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_batch
from ottla.wire.errors import OttlaError, UnknownProducerId
from ottla.wire.payload_check import STREAM_BEGINS

BATCH_BYTES = 100


def batch(producer: int, sequence: int = 0, epoch: int = 0) -> memoryview:
    payload = STREAM_BEGINS[Codec.ZSTD].ljust(BATCH_BYTES - 61, b"\1")
    return memoryview(
        build_batch(
            payload, magic=MAGIC_KAFKA, attributes=Codec.ZSTD, count=1, first_timestamp=1, max_timestamp=1,
            producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
        )
    )  # fmt: skip


def open_log(folder: Path, memory: ProducerMemory | None = None, segment_bytes: int = 10 * BATCH_BYTES) -> Log:
    config = LogConfig(segment_bytes=segment_bytes)
    return Log.open(folder / "t-0", "topic-id-1", config, clean=True, producer_memory=memory)


def append(log: Log, producer: int, sequence: int = 0, epoch: int = 0) -> int:
    return log.append_as_leader(batch(producer, sequence, epoch), 0, 0).first_offset


def save(log: Log) -> None:
    write = log.producers_to_save()
    assert write is not None
    write()


def test_roll_writes_no_snapshot_and_one_is_due_afterwards(tmp_path: Path) -> None:
    """Before: encoding 10,000 producers at a roll kept the event loop waiting for 284 ms."""
    log = open_log(tmp_path)
    for producer in range(10):
        append(log, producer)
    assert log.producers_to_save() is None
    append(log, 10)
    assert log.sealed_up_to == 10
    assert not (log.folder / FILE_NAME).exists()
    save(log)
    assert (log.folder / FILE_NAME).exists()
    assert log.producers_to_save() is None, "until the next segment is sealed"
    log.discard()
    again = open_log(tmp_path)
    assert [append(again, producer) for producer in range(11)] == list(range(11)), "all of them are repetitions"
    again.discard()


def test_roll_with_very_many_producers_takes_no_time_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    monkeypatch.setattr(Snapshot, "__init__", lambda *_: pytest.fail("a snapshot was taken"))
    for producer in range(100):
        append(log, producer)
    assert log.sealed_up_to == 90
    log.discard()


@pytest.mark.parametrize("change", ["truncate", "clear", "discard"])
def test_snapshot_that_is_being_written_while_the_log_is_cut_or_closed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It names batches that are not in the log any more: other ones may stand there when the log is opened again."""
    log = open_log(tmp_path)
    for producer in range(11):
        append(log, producer)
    begun, go_on = threading.Event(), threading.Event()
    encode = Snapshot.encode

    def encode_slowly(self: Snapshot) -> bytes:
        begun.set()
        assert go_on.wait(10)
        return encode(self)

    monkeypatch.setattr(Snapshot, "encode", encode_slowly)
    write = log.producers_to_save()
    assert write is not None
    writing = threading.Thread(target=write)
    writing.start()
    assert begun.wait(10)
    {
        "truncate": lambda: log.truncate_to(3),
        "clear": lambda: log.truncate_fully_and_start_at(0),
        "discard": log.discard,
    }[change]()
    go_on.set()
    writing.join()
    assert [path.name for path in log.folder.iterdir() if FILE_NAME in path.name] == []
    log.discard()


def test_evicted_producer_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    """Before: a producer that 10,000 others had followed sent its first batch again, and it was stored a second time."""
    two = 2 * (ENTRY_BYTES + SENT_BYTES)
    log = open_log(tmp_path, ProducerMemory(limit_bytes=two), segment_bytes=10**6)
    for producer in range(5):
        append(log, producer)
    end = log.log_end_offset
    for opened in (log, None):
        current = opened or open_log(tmp_path, ProducerMemory(limit_bytes=two))
        for producer in range(3):
            with pytest.raises(UnknownProducerId):
                append(current, producer)
        assert append(current, 4) == 4, "this one is remembered"
        assert current.log_end_offset == end
        if opened is not None:
            current.close()
    assert append(current, 0, epoch=1) == end, "it begins anew"
    assert append(current, 7) == end + 1, "and a new one begins"
    current.discard()


def test_follower_that_evicted_a_producer_knows_it_again_by_its_next_batch(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader", segment_bytes=10**6)
    follower = open_log(tmp_path / "follower", ProducerMemory(limit_bytes=ENTRY_BYTES + SENT_BYTES), 10**6)

    def replicate() -> None:
        for records in leader.read(follower.log_end_offset, 10**6, up_to=leader.log_end_offset, at_least_one=True):
            follower.append_as_follower(records)

    append(leader, 1)
    append(leader, 2)
    replicate()
    with pytest.raises(UnknownProducerId):
        append(follower, 1)
    append(leader, 1, 1)
    replicate()
    # It becomes the leader: the last batch is known, one before it is refused, and none is stored twice.
    assert append(follower, 1, 1) == 2
    with pytest.raises(OttlaError):
        append(follower, 1, 0)
    assert append(follower, 1, 2) == 3
    leader.discard()
    follower.discard()


def test_expired_producers_are_forgotten_when_it_is_looked(tmp_path: Path) -> None:
    memory = ProducerMemory(expiration_ms=1)
    log = open_log(tmp_path, memory, segment_bytes=10**6)
    append(log, 1)
    deadline = time.monotonic() + 10
    while memory.used_bytes > ENTRY_BYTES and time.monotonic() < deadline:
        log.producers.expire(100)
    with pytest.raises(UnknownProducerId):
        append(log, 1)
    log.close()
    again = open_log(tmp_path, ProducerMemory())
    with pytest.raises(UnknownProducerId):
        append(again, 1)
    assert append(again, 1, epoch=1) == 1
    again.discard()


def test_snapshot_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=10**6)
    append(log, 1)
    log.close()
    body = msgspec.msgpack.encode((1, [(1, 0, [(0, 0, 0, 0)]), (9, 0, [(5, 5, 0, 0)])]))
    (tmp_path / "t-0" / FILE_NAME).write_bytes(crc32c(body).to_bytes(4, "big") + body)
    again = open_log(tmp_path, segment_bytes=10**6)
    assert append(again, 1) == 0
    assert append(again, 9, 6) == 1, "what the snapshot says counts"
    again.discard()


def test_snapshot_in_several_pieces_is_read_whole_and_a_spoilt_one_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "PRODUCERS_PER_PIECE", 3)
    log = open_log(tmp_path, segment_bytes=10**6)
    for producer in range(10):
        append(log, producer)
    log.close()
    path = tmp_path / "t-0" / FILE_NAME
    whole = path.read_bytes()
    offset, states = snapshot_module.load_producers(path.parent, ProducerMemory())
    assert (offset, [producer for producer, _, _ in states.dump()]) == (10, list(range(10)))
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        offset, states = snapshot_module.load_producers(path.parent, ProducerMemory())
        assert (offset, len(states)) == (0, 0), position
    path.write_bytes(whole[: len(whole) // 2])
    assert snapshot_module.load_producers(path.parent, ProducerMemory())[0] == 0


def test_snapshot_past_the_end_of_a_recovered_log_is_not_used_once_other_records_have_come_so_far(
    tmp_path: Path,
) -> None:
    """Before: a batch that is not in the log was taken for a repetition, and acknowledged."""
    log = open_log(tmp_path)
    for sequence in range(5):
        append(log, 7, sequence)
    log.close()
    # What a power cut does to records that are not flushed.
    os.truncate(log.folder / "00000000000000000000.log", 2 * BATCH_BYTES)
    log = open_log(tmp_path)
    assert log.log_end_offset == 2
    for sequence in range(5):  # from another leader
        append(log, 8, sequence)
    log.discard()  # killed
    log = open_log(tmp_path)
    assert append(log, 7, 2) == 7
    log.close()
