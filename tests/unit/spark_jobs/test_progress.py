"""How far the next micro-batch goes."""

import pytest

from ottla.spark_jobs.errors import DataLost
from ottla.spark_jobs.offsets import StreamOffset
from ottla.spark_jobs.progress import Available, MinimumRows, next_offset
from ottla.wire.names import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": "old"}


def available(ends, topic_id="old"):
    return Available(dict.fromkeys(ends, topic_id), ends)


def advance(start, there, *, most=None, first=False, fail=True, begins=None):
    asked = begins or {}
    return next_offset(
        start, there, lambda which: {where: asked.get(where, 0) for where in which}, most, first=first, fail=fail
    )


def test_a_batch_reads_all_there_is():
    end, warnings = advance(StreamOffset({T0: 5}, IDS), available({T0: 9}))
    assert (end, warnings) == (StreamOffset({T0: 9}, IDS), [])


def test_nothing_new_is_the_same_offset():
    start = StreamOffset({T0: 5}, IDS, {T0: 1})
    assert advance(start, available({T0: 5}))[0] is start


def test_the_first_end_says_where_all_began():
    end, _ = advance(StreamOffset({T0: 5}, IDS), available({T0: 9}), first=True)
    assert end.begins == {T0: 5}


def test_a_limit_cuts_and_the_rest_comes_later():
    end, _ = advance(StreamOffset({T0: 0, T1: 0}, IDS), available({T0: 90, T1: 10}), most=10)
    assert end.offsets == {T0: 9, T1: 1}


def test_a_new_partition_begins_at_its_beginning_and_the_end_says_so():
    end, warnings = advance(StreamOffset({T0: 5}, IDS), available({T0: 5, T1: 7}))
    assert end == StreamOffset({T0: 5, T1: 7}, IDS, {T1: 0})
    assert warnings == []


def test_a_new_partition_that_has_lost_its_beginning_is_data_lost():
    with pytest.raises(DataLost, match="begins at 3 instead of 0"):
        advance(StreamOffset({T0: 5}, IDS), available({T0: 5, T1: 7}), begins={T1: 3})


def test_a_topic_made_anew_is_not_read_from_the_middle():
    there = available({T0: 9}, topic_id="new")
    with pytest.raises(DataLost, match="deleted and made anew"):
        advance(StreamOffset({T0: 5}, IDS), there)
    end, warnings = advance(StreamOffset({T0: 5}, IDS), there, fail=False)
    assert end == StreamOffset({T0: 9}, {"t": "new"}, {T0: 0})
    assert len(warnings) == 1


def test_a_topic_made_anew_with_as_many_records_is_still_another():
    end, _ = advance(StreamOffset({T0: 5}, IDS), available({T0: 5}, topic_id="new"), fail=False)
    assert end == StreamOffset({T0: 5}, {"t": "new"}, {T0: 0})


def test_a_deleted_topic_is_data_lost():
    start = StreamOffset({T0: 5, U0: 1}, IDS)
    with pytest.raises(DataLost, match="'u' was deleted"):
        advance(start, available({T0: 9}))
    end, _ = advance(start, available({T0: 9}), fail=False)
    assert end.offsets == {T0: 9}


def test_a_log_that_got_shorter_is_data_lost():
    with pytest.raises(DataLost, match="read up to offset 5, and ends at 3"):
        advance(StreamOffset({T0: 5}, IDS), available({T0: 3}))
    end, warnings = advance(StreamOffset({T0: 5}, IDS), available({T0: 3}), fail=False)
    assert (end.offsets, len(warnings)) == ({T0: 3}, 1)


def test_an_offset_without_ids_is_believed():
    assert advance(StreamOffset({T0: 5}), available({T0: 9}))[0] == StreamOffset({T0: 9}, IDS)


def test_a_batch_waits_for_enough_records_but_not_for_ever():
    minimum = MinimumRows(10, 1000)
    start, little, much = (StreamOffset({T0: number}) for number in (0, 3, 10))
    assert not minimum.reached(little, start, 0.0)
    assert not minimum.reached(little, start, 0.9)
    assert minimum.reached(much, start, 0.95)
    assert not minimum.reached(little, start, 1.9)
    assert minimum.reached(little, start, 1.95)
