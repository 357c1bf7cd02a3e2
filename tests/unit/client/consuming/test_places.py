"""Partitions as users name them."""

import pytest

from ottla.client.consuming.places import check_topics, place_and_offset, place_of, places_of
from ottla.wire.errors import ConfigError
from ottla.wire.names import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partitions_come_one_by_one_or_in_lists():
    assert places_of([T0, ("t", 1)]) == [T0, T1]
    assert places_of([[T0, T1]]) == [T0, T1]
    assert places_of([{T0}]) == [T0]
    assert places_of([]) == []


def test_one_partition_comes_as_one_thing_or_two():
    assert place_of("t", 1) == place_of(T1) == place_of(("t", 1)) == T1
    assert place_and_offset("t", 1, 5) == place_and_offset(T1, 5, None) == place_and_offset(T1, None, 5) == (T1, 5)


@pytest.mark.parametrize("given", ["t", 5, [("t", "0")], [("t", None)], [["t", 0]]])
def test_what_is_no_partition_is_refused_with_a_hint(given):
    with pytest.raises(ConfigError) as refused:
        places_of([given])
    assert "TopicPartition" in (refused.value.hint or "")


@pytest.mark.parametrize("given", [("t",), (T0,), ("t", 0, "five"), ("t", 0, None)])
def test_seek_without_a_place_or_an_offset_is_refused(given):
    with pytest.raises(ConfigError):
        place_and_offset(*(*given, None, None)[:3])


def test_topics_are_named_one_by_one():
    check_topics(("a", "b"))
    for wrong, hint in ((["a", "b"], "one by one"), ({"bootstrap.servers": "a"}, "from_config"), (5, "one by one")):
        with pytest.raises(ConfigError) as refused:
            check_topics((wrong,))
        assert hint in (refused.value.hint or "")
