"""Any sequence of appends, cuts, deletions and restarts equals a plain list of batches."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_batch, build_gap, read_header, stamp
from ottla.wire.errors import ReplicaNotAvailable
from ottla.wire.payload_check import STREAM_BEGINS


class LogMachine(RuleBasedStateMachine):
    """``batches`` is the model: (base offset, next offset, epoch, timestamp, bytes) in order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="ottla-log-model-")
        self.batches: list[tuple[int, int, int, int, bytes]] = []
        self.start = self.end = 0
        self.epoch = 0
        self.held: list[tuple[memoryview, bytes]] = []

    segment_sizes = st.sampled_from([400, 1000, 100_000])

    @initialize(interval=st.sampled_from([0, 200, 4096]), segment_bytes=segment_sizes)
    def open(self, interval: int, segment_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, retention_ms=-1)
        self.log = self.opened(clean=True)

    def opened(self, *, clean: bool, recovery_point: int = 0) -> Log:
        path = Path(self.folder.name) / "t-0"
        return Log.open(
            path, "id", self.config, clean=clean, recovery_point=recovery_point, log_start_offset=self.start
        )

    def a_batch(self, base_offset: int, count: int, size: int, timestamp: int) -> bytearray:
        payload = STREAM_BEGINS[Codec.ZSTD] + bytes([len(self.batches) % 251]) * size
        batch = build_batch(
            payload,
            magic=MAGIC_KAFKA,
            attributes=Codec.ZSTD,
            count=count,
            first_timestamp=timestamp,
            max_timestamp=timestamp,
        )
        self.note(base_offset, count, timestamp, batch)
        return batch

    def note(self, base_offset: int, count: int, timestamp: int, batch: bytearray) -> None:
        stamped = bytearray(batch)
        stamp(stamped, 0, base_offset, self.epoch)
        self.batches.append((base_offset, base_offset + count, self.epoch, timestamp, bytes(stamped)))
        self.end = base_offset + count

    shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 200), st.integers(0, 50)), min_size=1, max_size=3)

    @rule(shapes=shapes)
    def append_as_leader(self, shapes: list[tuple[int, int, int]]) -> None:
        shapes = shapes[:1] if self.config.segment_bytes == 400 else shapes
        first = self.end
        data = bytearray()
        for count, size, timestamp in shapes:
            data += self.a_batch(self.end, count, size, timestamp)
        appended = self.log.append_as_leader(memoryview(data), self.epoch, 0)
        assert (appended.first_offset, appended.last_offset) == (first, self.end - 1)
        assert appended.max_timestamp == max(timestamp for _, _, timestamp in shapes)

    @rule(shapes=shapes, gap=st.sampled_from([0, 0, 3]), cut=st.integers(0, 60))
    def append_as_follower(self, shapes: list[tuple[int, int, int]], gap: int, cut: int) -> None:
        data = b""
        for count, size, timestamp in shapes:
            if gap:
                self.note(self.end, gap, -1, build_gap(self.end, self.end + gap, self.epoch))
                data += self.batches[-1][4]
            self.a_batch(self.end, count, size, timestamp)
            data += self.batches[-1][4]
        assert self.log.append_as_follower(memoryview(bytearray(data + data[:cut]))) == self.end

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule(segment_bytes=segment_sizes)
    def alter_config(self, segment_bytes: int) -> None:
        self.config = self.log.config = replace(self.config, segment_bytes=segment_bytes)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.start, self.end - back)
        try:
            self.log.truncate_to(offset)
        except ReplicaNotAvailable:
            assert self.held, "nobody holds what is to be cut"
            self.reads_like_the_list()
            self.held.clear()
            self.log.truncate_to(offset)
        while self.batches and self.batches[-1][1] > offset:
            offset = min(offset, self.batches.pop()[0])
        self.end = offset
        assert self.log.log_end_offset == offset, "inside a batch, or a gap, where that began"
        self.start = min(self.start, self.end)

    @rule(offset=st.integers(0, 1000))
    def start_over(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.batches, self.start, self.end = [], offset, offset

    @rule(forward=st.integers(0, 5))
    def delete_records(self, forward: int) -> None:
        self.start = self.log.delete_records_before(min(self.end, self.start + forward))
        self.log.apply_retention(0)
        self.log.remove_deleted_files()
        self.batches = [batch for batch in self.batches if batch[1] > self.start]

    @rule()
    def hold_a_slice(self) -> None:
        for view in self.log.read(self.start, 1 << 20, up_to=self.end, at_least_one=False):
            self.held.append((view, bytes(view)))

    @rule(back=st.integers(0, 12))
    def hold_what_may_be_cut(self, back: int) -> None:
        stays = max(self.start, self.end - back)
        for view in self.log.read(self.start, 1 << 20, up_to=self.end, at_least_one=False, stays=stays):
            self.held.append((view, bytes(view)))

    @rule()
    def restart(self) -> None:
        self.held.clear()  # no slice outlives its process
        self.log.close()
        self.log = self.opened(clean=True, recovery_point=self.log.flushed_up_to)
        assert self.log.recovery is None or not self.batches

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end

    @rule(from_start=st.booleans())
    def crash(self, from_start: bool) -> None:
        recovery_point = 0 if from_start else self.log.flushed_up_to
        self.held.clear()
        self.log.discard()
        self.log = self.opened(clean=False, recovery_point=recovery_point)
        assert self.log.recovery is None or self.log.recovery.reason == ""

    @invariant()
    def reads_like_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        visible = [batch for batch in self.batches if batch[1] > self.start]
        for offset in {self.start, (self.start + self.end) // 2, max(self.start, self.end - 1), self.end}:
            for up_to in (offset, offset + 2, self.end):
                for max_bytes in (0, 250, 1 << 20):
                    views = self.log.read(offset, max_bytes, up_to=up_to, at_least_one=True)
                    assert b"".join(views) == self.expected(visible, offset, up_to, max_bytes)
        for timestamp in (0, 25, 50):
            found = self.log.find_by_timestamp(timestamp)
            expected = next((batch[0] for batch in visible if batch[3] >= timestamp), None)
            assert (None if found is None else read_header(found).base_offset) == expected

    @invariant()
    def held_slices_do_not_change(self) -> None:
        assert all(bytes(view) == before for view, before in self.held)

    @staticmethod
    def expected(batches: list[tuple[int, int, int, int, bytes]], offset: int, up_to: int, max_bytes: int) -> bytes:
        data = b""
        for _, next_offset, _, _, stamped in batches:
            if next_offset <= offset:
                continue
            if next_offset > up_to or (data and len(data) + len(stamped) > max_bytes):
                break
            data += stamped
        return data

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.discard()
        self.held.clear()
        self.folder.cleanup()


# Not shrunk: every step syncs to disk, so shrinking would take minutes; the failing steps are printed as they were.
LogMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=25, deadline=None, phases=[Phase.reuse, Phase.generate]
)
TestLogModel = LogMachine.TestCase
