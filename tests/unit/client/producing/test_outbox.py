"""Where records go: named partitions, keys, turns; and what cannot be sent is refused to its sender."""

from collections import Counter
from itertools import pairwise

import pytest

from ottla.client.config import ProducerConfig
from ottla.client.producing.outbox import Outbox
from ottla.client.producing.partitioner import partition_for_key
from ottla.wire.errors import InvalidTimestamp, MessageTooLarge, UnknownTopicOrPartition
from ottla.wire.requests import PartitionMetadata, TopicMetadata


class KnownTopics:
    """The part of a Cluster that an outbox looks at."""

    def __init__(self, *partitions):
        self.topics = {"t": TopicMetadata("t", "id", list(partitions), {})}


def outbox(partitions=3, led=None, **options):
    leaders = [0 if led is None or i in led else -1 for i in range(partitions)]
    known = KnownTopics(*(PartitionMetadata(i, leader, 0, [0], [0]) for i, leader in enumerate(leaders)))
    return Outbox(ProducerConfig(**options), known)  # type: ignore[arg-type]


def send(box, value=b"v", key=None, partition=None, timestamp_ms=None):
    return box.add("t", value, key, None, partition, timestamp_ms)[0].where.partition


def spread(box, values, keys=None, partition=None):
    count, pieces = box.add_many("t", values, keys, partition, None)
    assert sorted(place for places, _ in pieces for place in places) == list(range(count))
    return {place: batch.where.partition for places, batch in pieces for place in places}


def test_s74_records_without_a_key_go_round_evenly():
    box = outbox(3)
    assert set(Counter(send(box) for _ in range(300)).values()) == {100}


def test_s74_lists_without_keys_go_round_evenly_over_many_calls():
    box = outbox(3)
    hits = Counter(partition for _ in range(30) for partition in spread(box, [b"v"] * 4).values())
    assert set(hits.values()) == {40}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_list_and_single_records_take_turns_together(count):
    box = outbox(3)
    first = spread(box, [b"v"] * count)
    assert send(box) == (first[0] + count) % 3


def test_s72_same_key_same_partition_alone_and_in_lists():
    box = outbox(5)
    keys = [b"key-%d" % (n % 7) for n in range(70)]
    expected = {place: partition_for_key(key, 5) for place, key in enumerate(keys)}
    assert spread(box, [b"v"] * 70, keys) == expected
    assert {place: send(box, key=key) for place, key in enumerate(keys)} == expected


def test_s78_named_partition_wins_over_the_key():
    box = outbox(5)
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 5) != 2)
    assert send(box, key=key, partition=2) == 2
    assert set(spread(box, [b"v"] * 3, [key] * 3, partition=2).values()) == {2}
    with pytest.raises(UnknownTopicOrPartition, match="partition 5 of a topic that has 5"):
        send(box, partition=5)


def test_records_without_a_key_avoid_partitions_without_a_leader_and_keyed_ones_do_not():
    box = outbox(3, led=[0, 2])
    assert {send(box) for _ in range(10)} == {0, 2}
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 3) == 1)
    assert send(box, key=key) == 1


def test_some_keys_may_be_missing_from_a_list():
    box = outbox(4)
    went = spread(box, [b"v"] * 6, [b"k", None, b"k", None, b"k", None])
    assert {went[place] for place in (0, 2, 4)} == {partition_for_key(b"k", 4)}
    with pytest.raises(ValueError, match="2 values with 1 keys"):
        spread(box, [b"v"] * 2, [b"k"])


def test_sticky_fills_a_batch_before_it_goes_on_to_another_partition():
    box = outbox(3, partitioner="sticky", batch_size=1000)
    went = [send(box, b"x" * 84) for _ in range(60)]
    changes = sum(1 for before, after in pairwise(went) if before != after)
    assert set(went) == {0, 1, 2}
    assert changes <= 2 * 60 // 9


def test_empty_list_sends_nothing():
    assert outbox().add_many("t", [], None, None, None) == (0, [])


def test_serializers_are_used_and_their_errors_reach_the_sender():
    box = outbox(value_serializer=lambda value: value.encode(), key_serializer=str.encode)
    batch, index = box.add("t", "text", "k", None, 0, None)
    assert (batch.values[index], batch.keys[index]) == (b"text", b"k")
    _, [(_, many)] = box.add_many("t", ["a", "b"], None, 0, None)
    assert many.values == [b"a", b"b"]
    with pytest.raises(AttributeError):
        box.add("t", 5, "k", None, 0, None)
    assert batch.values == [b"text"]


@pytest.mark.parametrize("value", ["text", 5, ["list"]])
def test_values_that_are_not_bytes_are_refused_with_what_to_do(value):
    with pytest.raises(TypeError, match="value_serializer"):
        outbox().add("t", value, None, None, None, None)
    with pytest.raises(TypeError, match="value_serializer"):
        outbox().add_many("t", [b"good", value], None, None, None)


def test_of_a_list_with_a_record_that_is_too_large_nothing_is_queued():
    box = outbox(2, max_request_size=1000)
    with pytest.raises(MessageTooLarge):
        box.add_many("t", [b"a", b"x" * 2000, b"b"], None, None, None)
    assert (box.accumulator.unfinished(), box.accumulator.pending_bytes) == ([], 0)


def test_bytes_like_values_are_copied():
    source = bytearray(b"before")
    batch, index = outbox().add("t", source, memoryview(b"k"), None, 0, None)
    source[:] = b"after!"
    assert (batch.values[index], batch.keys[index]) == (b"before", b"k")


class Integer:
    """An integer that is no int, as numpy's are."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


def test_partitions_and_timestamps_may_be_any_integers():
    box = outbox()
    batch, index = box.add("t", b"v", None, None, Integer(1), Integer(1_700_000_000_000))
    assert batch.where.partition == 1
    assert batch.timestamps[index] == 1_700_000_000_000
    _, pieces = box.add_many("t", [b"a", b"b"], None, Integer(0), Integer(5))
    assert [(piece.where.partition, piece.timestamps) for _, piece in pieces] == [(0, 5)]


@pytest.mark.parametrize("partition", [1.0, "1", b"1"])
def test_what_is_no_integer_names_no_partition(partition):
    with pytest.raises(TypeError, match="a partition must be an integer"):
        send(outbox(), partition=partition)


@pytest.mark.parametrize("timestamp", [-2, 2**63, 1.5, "now"])
def test_impossible_timestamps_are_refused_to_their_sender(timestamp):
    with pytest.raises(InvalidTimestamp):
        send(outbox(), timestamp_ms=timestamp)
