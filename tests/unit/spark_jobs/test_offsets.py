"""Offsets as Spark keeps them, a trigger's limit, and slices."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark_jobs.offsets import Slice, StreamOffset, count_between, limited, slices
from ottla.wire.names import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
A10 = TopicPartition("a", 10)


def test_an_offset_is_sparks_kafka_sources_with_notes_beside_it():
    offset = StreamOffset({A0: 23, A1: 0}, {"a": "id"}, {A1: 0})
    assert offset.to_json() == {"a": {"0": 23, "1": 0}, "@ids": {"a": "id"}, "@from": {"a": {"1": 0}}}
    assert StreamOffset.from_json(offset.to_json()) == offset


def test_an_offset_of_sparks_own_kafka_source_is_understood():
    assert StreamOffset.from_json({"a": {"0": 23}}) == StreamOffset({A0: 23})


def test_equal_offsets_are_equal_as_text_for_spark_compares_them_so():
    one = StreamOffset({B0: 1, A10: 3, A1: 2}, {"b": "y", "a": "x"})
    other = StreamOffset({A1: 2, A10: 3, B0: 1}, {"a": "x", "b": "y"})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert json.dumps(StreamOffset.from_json(one.to_json()).to_json()) == json.dumps(one.to_json())


def test_a_limit_is_shared_by_how_much_there_is():
    begins, ends = {A0: 0, A1: 100}, {A0: 3000, A1: 1100}
    assert limited(begins, ends, 1000) == {A0: 750, A1: 350}
    assert limited(begins, ends, 4000) == ends


def test_a_limit_of_one_still_moves():
    assert count_between({A0: 0, A1: 0}, limited({A0: 0, A1: 0}, {A0: 9, A1: 9}, 1)) == 1


Sizes = st.lists(st.integers(0, 10**6), min_size=1, max_size=9)


@given(Sizes, st.integers(1, 10**6))
def test_a_limit_is_used_up_and_never_passed(sizes, most):
    begins = {TopicPartition("t", number): 7 * number for number in range(len(sizes))}
    ends = {where: begins[where] + size for where, size in zip(begins, sizes, strict=True)}
    found = limited(begins, ends, most)
    assert all(begins[where] <= found[where] <= ends[where] for where in ends)
    assert count_between(begins, found) == min(most, sum(sizes))


def test_small_ranges_stay_whole():
    ranges = [Slice("t", 0, 0, 30_000), Slice("t", 1, 5, 6), Slice("t", 2, 9, 9)]
    assert slices(ranges, cores=8) == ranges[:2]


def test_a_hot_partition_is_cut_for_all_cores():
    cut = slices([Slice("t", 0, 100, 400_100)], cores=4)
    assert [(one.start, one.end) for one in cut] == [
        (100, 100_100), (100_100, 200_100), (200_100, 300_100), (300_100, 400_100),
    ]  # fmt: skip


def test_min_partitions_is_reached_though_the_ranges_are_small():
    assert len(slices([Slice("t", 0, 0, 10), Slice("t", 1, 0, 10)], min_partitions=5)) >= 5


@pytest.mark.parametrize(("wanted", "records"), [(1000, 1001), (100, 120), (7, 10), (12, 10)])
def test_there_are_as_many_slices_as_wanted_where_there_are_as_many_records(wanted, records):
    cut = slices([Slice("t", 0, 5, 5 + records // 3), Slice("t", 1, 0, records - records // 3)], min_partitions=wanted)
    assert len(cut) == min(wanted, records)


def test_no_slice_has_more_than_it_may():
    assert [one.end - one.start for one in slices([Slice("t", 0, 0, 25)], most_records=10)] == [8, 8, 9]


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), max_size=5),
    st.integers(0, 50),
    st.integers(1, 16),
)
def test_slices_are_the_ranges_again(ranges, min_partitions, cores):
    whole = [Slice("t", number, start, start + size, "id", "f") for number, (start, size) in enumerate(ranges)]
    joined: dict[int, int] = {}
    for one in slices(whole, min_partitions=min_partitions, cores=cores):
        assert one.start < one.end
        assert one.topic_id == "id"
        assert one.folder == "f"
        assert joined.get(one.partition, one.start) == one.start
        joined[one.partition] = one.end
    assert joined == {one.partition: one.end for one in whole if one.end > one.start}
