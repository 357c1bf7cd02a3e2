"""Segment files as a reader beside the broker finds them: rolled, torn, with gaps, of either format, with wrong indexes."""

import struct

import pytest

from ottla.spark_jobs.errors import DataLost
from ottla.spark_jobs.log_files import FileCatalog
from ottla.spark_jobs.log_reader import CHUNK, read_log
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import read_options
from ottla.wire.batch import MAGIC_KAFKA, Codec, build_gap, stamp
from ottla.wire.errors import ConfigError, UnreadableRecords
from ottla.wire.log_layout import segment_name
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch

T0 = TopicPartition("t", 0)


def batch(base, values, **how):
    encoded = encode_batch(values, timestamps=how.pop("timestamps", 1000 + base), **how)
    stamp(encoded, 0, base, 0)
    return bytes(encoded)


def tens(base):
    return batch(base, [b"%d" % (base + number) for number in range(10)])


class Logs:
    """A data folder with one partition."""

    def __init__(self, path):
        self.path = path
        self.folder = path / "t-0"
        self.folder.mkdir(parents=True)
        (self.folder / "partition.metadata").write_text("version: 0\ntopic_id: id\n")

    def segment(self, base, *batches):
        (self.folder / segment_name(base)).write_bytes(b"".join(batches))

    def committed(self, offset):
        (self.path / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")

    def read(self, start, end, fail=True):
        part = Slice("t", 0, start, end, "id", str(self.folder))
        return [
            offset
            for batches in read_log(part, fail_on_data_loss=fail)
            for one in batches
            for offset in one.offsets()
            if start <= offset < end
        ]

    def catalog(self):
        return FileCatalog(read_options({"mode": "files", "path": str(self.path)}))

    def ends(self):
        catalog = self.catalog()
        return catalog.offsets({T0: EARLIEST})[T0], catalog.offsets({T0: LATEST})[T0]


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path / "data")


def test_segments_are_one_log(logs):
    logs.segment(0, tens(0), tens(10))
    logs.segment(20, tens(20))
    logs.segment(30)
    assert logs.read(0, 30) == list(range(30))
    assert logs.read(5, 25) == list(range(5, 25))


def test_either_format_and_every_codec_is_read(logs):
    kafka = batch(0, [b"a"] * 10, magic=MAGIC_KAFKA)
    codecs = [batch(10 * number, [b"b"] * 10, codec=codec) for number, codec in enumerate(Codec, 1)]
    logs.segment(0, kafka, *codecs)
    assert logs.read(0, 60) == list(range(60))


def test_gaps_have_no_rows_and_are_no_loss(logs):
    logs.segment(0, tens(0), bytes(build_gap(10, 20, 0)), tens(20))
    assert logs.read(0, 30) == [*range(10), *range(20, 30)]


def test_only_what_is_committed_and_whole_is_there(logs):
    logs.segment(0, tens(0), tens(10), tens(20)[:-1])
    logs.committed(15)
    assert logs.ends() == (0, 15)
    logs.committed(30)  # the log was copied before its checkpoint, or the tail is torn
    assert logs.ends() == (0, 20)
    logs.committed(20)
    assert logs.ends() == (0, 20)


def test_a_log_that_grows_or_is_cut_is_looked_at_anew(logs):
    logs.segment(0, tens(0), tens(10))
    logs.committed(40)
    catalog = logs.catalog()
    seen = []
    for batches in ([tens(0), tens(10)], [tens(0), tens(10), tens(20)], [tens(0)], [batch(0, [b"v"] * 12)]):
        logs.segment(0, *batches)
        seen.append(catalog.offsets({T0: LATEST})[T0])
    assert seen == [20, 30, 10, 12]


def test_a_log_begins_where_retention_or_its_checkpoint_says(logs):
    logs.segment(20, tens(20), tens(30))
    logs.committed(40)
    assert logs.ends() == (20, 40)
    (logs.path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 25\n")
    assert logs.ends() == (25, 40)


def test_records_that_are_gone_are_an_error_or_passed_over(logs):
    logs.segment(20, tens(20))
    with pytest.raises(DataLost, match="t-0 from offset 0 on"):
        logs.read(0, 30)
    assert logs.read(0, 30, fail=False) == list(range(20, 30))
    assert logs.read(0, 99, fail=False) == list(range(20, 30))


def test_a_batch_larger_than_what_is_read_at_once_comes_whole(logs):
    large = batch(10, [bytes(CHUNK), b"x"])
    logs.segment(0, tens(0), large, tens(12))
    assert logs.read(0, 22) == list(range(22))


def test_an_index_is_used_but_not_believed(logs):
    batches = [tens(10 * number) for number in range(10)]
    logs.segment(0, *batches)
    good = struct.pack(">II", 59, 5 * len(batches[0]))
    (logs.folder / segment_name(0, ".index")).write_bytes(good)
    assert logs.read(60, 65) == list(range(60, 65))
    (logs.folder / segment_name(0, ".index")).write_bytes(struct.pack(">II", 50, 3))
    assert logs.read(55, 60) == list(range(55, 60))


def test_a_damaged_batch_is_told_with_its_offset(logs):
    damaged = bytearray(tens(10))
    damaged[-1] ^= 1
    logs.segment(0, tens(0), bytes(damaged), tens(20))
    with pytest.raises(UnreadableRecords, match="offset 10"):
        logs.read(0, 30)


def test_the_first_record_at_a_time_is_found(logs):
    times = list(range(0, 1000, 100))
    logs.segment(0, batch(0, [b"v"] * 10, timestamps=times))
    logs.segment(10, batch(10, [b"v"] * 10, timestamps=[time + 1000 for time in times]))
    logs.committed(15)
    catalog = logs.catalog()
    found = [catalog.offsets({T0: time})[T0] for time in (0, 150, 1000, 1400, 1401, 9999)]
    assert found == [0, 2, 10, 14, -1, -1]


def test_of_two_replicas_the_one_that_is_committed_further_is_read(logs, tmp_path):
    logs.segment(0, tens(0))
    logs.committed(10)
    other = Logs(tmp_path / "other")
    other.segment(0, tens(0), tens(10))
    other.committed(20)
    logs.committed(99)  # as it says; but its files end at 10
    both = {"mode": "files", "path": f"{logs.path},{other.path}"}
    catalog = FileCatalog(read_options(both))
    assert catalog.partitions() == {T0: "id"}
    assert catalog.folder(T0) == str(other.folder)
    (other.folder / "partition.metadata").write_text("version: 0\ntopic_id: another\n")
    with pytest.raises(ConfigError, match="different topics that were named 't'"):
        FileCatalog(read_options(both)).partitions()


def test_what_is_not_there_is_told(logs, tmp_path):
    logs.segment(0, tens(0))
    with pytest.raises(ConfigError, match="there is no file replication-offset-checkpoint"):
        logs.ends()
    logs.committed(10)
    with pytest.raises(ConfigError, match=r"no folder of topic 'tt' .* did you mean 't'\?"):
        FileCatalog(read_options({"mode": "files", "path": str(logs.path), "subscribe": "tt"})).partitions()
    (logs.path / "replication-offset-checkpoint").write_text("garbage")
    with pytest.raises(ConfigError, match="is no checkpoint"):
        logs.ends()
