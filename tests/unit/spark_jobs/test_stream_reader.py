"""A stream that is asked for offsets again and again."""

import time

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.spark_jobs.options import read_options
from ottla.spark_jobs.stream_reader import LOOK_S, StreamReader
from ottla.wire.messages import EARLIEST
from ottla.wire.names import TopicPartition

T0 = TopicPartition("t", 0)


class Counting:
    """A catalog of one partition that counts how often it is asked for its end."""

    def __init__(self, end):
        self.end = end
        self.looks = 0

    def partitions(self, *, missing_ok=False):
        return {T0: "id"}

    def offsets(self, wanted):
        asked = wanted.get(T0)
        self.looks += asked != EARLIEST
        return {T0: 0 if asked == EARLIEST else self.end}

    def folder(self, where):
        return ""


def stream(catalog, **more):
    options = {"bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "startingOffsets": "earliest", **more}
    reader = StreamReader(read_options(options, streaming=True), ("value",))
    reader._catalog = catalog
    return reader


def test_an_idle_stream_looks_seldom_however_often_it_is_asked():
    catalog = Counting(5)
    reader = stream(catalog)
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    before, began = catalog.looks, time.monotonic()
    for _ in range(10):
        assert reader.latestOffset(offset, ReadAllAvailable()) == offset
        reader.reportLatestOffset()
    assert catalog.looks - before <= (time.monotonic() - began) / LOOK_S + 1


def test_new_records_are_seen_at_the_next_look():
    catalog = Counting(5)
    reader = stream(catalog)
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    catalog.end = 9
    assert reader.latestOffset(offset, ReadAllAvailable())["t"] == {"0": 9}


def test_what_comes_after_available_now_has_begun_is_left():
    catalog = Counting(5)
    reader = stream(catalog, maxOffsetsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    catalog.end = 99
    offsets = [reader.initialOffset()]
    while (end := reader.latestOffset(offsets[-1], reader.getDefaultReadLimit())) != offsets[-1]:
        offsets.append(end)
    assert [offset["t"]["0"] for offset in offsets] == [0, 3, 5]


def test_once_means_all_whatever_the_limit_is():
    reader = stream(Counting(50), maxOffsetsPerTrigger="3")
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["t"] == {"0": 50}


def test_a_batch_that_is_tried_again_is_cut_into_the_same_offsets():
    reader = stream(Counting(50))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    later = {"t": {"0": 20}, "@ids": {"t": "id"}}
    first, again = (reader.partitions(begin, end) for begin in (start, later))
    assert [part.value for part in first] == [part.value for part in again]
    assert [(part.value.start, part.value.end) for part in first] == [(0, 50)]
