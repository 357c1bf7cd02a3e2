"""Keys land where Java's Kafka client puts them; records without a key are spread."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producing.partitioner import (
    RoundRobin,
    Sticky,
    choose_partition,
    murmur2,
    partition_for_key,
    partitions_for_keys,
)
from ottla.wire.errors import LeaderNotAvailable, UnknownTopicOrPartition


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_javas(key, expected):
    assert murmur2(key) == expected


@given(st.binary(max_size=200), st.integers(1, 1000))
def test_partition_of_a_key_is_a_partition_and_stays_the_same(key, count):
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert partition == (murmur2(key) & 0x7FFFFFFF) % count == partition_for_key(bytes(bytearray(key)), count)


@given(st.lists(st.binary(max_size=80)), st.integers(1, 50))
def test_keys_in_bulk_go_where_each_goes_alone(keys, count):
    assert partitions_for_keys(keys, count) == [partition_for_key(key, count) for key in keys]


def test_keys_are_spread_evenly():
    hits = Counter(partitions_for_keys([b"key-%d" % n for n in range(10_000)], 10))
    assert all(800 < hits[partition] < 1200 for partition in range(10))


def test_round_robin_takes_turns_from_its_start():
    picker = RoundRobin(start=1)
    assert [picker.pick([4, 5, 6]) for _ in range(5)] == [5, 6, 4, 5, 6]


@given(start=st.integers(0, 2**32), before=st.integers(0, 9), count=st.integers(0, 40), partitions=st.integers(1, 7))
def test_round_robin_in_bulk_takes_the_same_turns(start, before, count, partitions):
    alone, bulk = RoundRobin(start), RoundRobin(start)
    available = list(range(10, 10 + partitions))
    for _ in range(before):
        assert alone.pick(available) == bulk.pick(available)
    assert bulk.pick_many(available, count) == [alone.pick(available) for _ in range(count)]
    assert bulk.pick(available) == alone.pick(available)


def test_sticky_stays_until_the_batch_is_full():
    picker = Sticky(start=2)
    assert [picker.pick([0, 1, 2]), *picker.pick_many([0, 1, 2], 3)] == [2, 2, 2, 2]
    picker.next_batch()
    assert picker.pick([0, 1, 2]) == 0


def test_pickers_take_only_partitions_that_have_a_leader():
    assert {RoundRobin(start).pick([3, 7]) for start in range(10)} == {3, 7}
    for picker in (RoundRobin(0), Sticky(0)):
        with pytest.raises(LeaderNotAvailable):
            picker.pick([])
        with pytest.raises(LeaderNotAvailable):
            picker.pick_many([], 3)


def test_explicit_partition_wins_over_the_key():
    picker = RoundRobin(0)
    assert choose_partition(b"abc", 3, 4, [0], picker) == 3
    assert choose_partition(b"abc", None, 4, [0], picker) == partition_for_key(b"abc", 4)
    assert [choose_partition(None, None, 4, [2, 3], picker) for _ in range(3)] == [2, 3, 2]


@pytest.mark.parametrize("partition", [-1, 4, 10**9])
def test_partition_that_does_not_exist_is_refused(partition):
    with pytest.raises(UnknownTopicOrPartition):
        choose_partition(None, partition, 4, [0], RoundRobin(0))
