"""What a consumer reads: topics, partitions, positions."""

import pytest

from ottla.client.consuming.subscription import UNKNOWN, Subscription
from ottla.wire.errors import ConfigError, InvalidTopic
from ottla.wire.names import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_subscription_reads_all_partitions_of_the_topics_that_exist_and_names_the_others():
    subscription = Subscription(["a", "b", "a"])
    assert subscription.topics_seen({"a": ("id-a", 2), "c": ("id-c", 1)}) == ["b"]
    assert list(subscription.assigned) == [A0, A1]
    assert not any(state.from_beginning for state in subscription.assigned.values())
    assert not subscription.readable


def test_what_comes_into_being_later_is_read_from_its_beginning():
    subscription = Subscription(["a", "b"])
    subscription.topics_seen({"a": ("id-a", 1)})
    subscription.assigned[A0].seek(5)
    assert subscription.topics_seen({"a": ("id-a", 2), "b": ("id-b", 1)}) == []
    assert subscription.assigned[A0].position == 5
    assert subscription.assigned[A1].from_beginning
    assert subscription.assigned[B0].from_beginning


def test_topic_subscribed_to_later_begins_where_the_config_says():
    subscription = Subscription(["a"])
    subscription.topics_seen({"a": ("id-a", 1)})
    subscription.subscribe(["a", "b"])
    subscription.topics_seen({"a": ("id-a", 1), "b": ("id-b", 1)})
    assert not subscription.assigned[B0].from_beginning


def test_topic_created_anew_is_read_from_its_beginning_and_the_old_one_is_forgotten():
    subscription = Subscription(["a"])
    subscription.topics_seen({"a": ("id-1", 1)})
    old = subscription.assigned[A0]
    old.seek(5)
    position_version = old.position_version
    subscription.topics_seen({"a": ("id-2", 1)})
    new = subscription.assigned[A0]
    assert new is not old
    assert new.from_beginning
    assert new.position == UNKNOWN
    assert old.position_version > position_version


def test_assigned_partitions_that_stay_keep_their_position():
    subscription = Subscription()
    subscription.assign([A0, A1])
    subscription.seek(A0, 3)
    dropped = subscription.assigned[A1]
    subscription.assign([A0, B0])
    assert subscription.assigned[A0].position == 3
    assert dropped.position_version == 1
    assert subscription.wanted_topics() == ["a", "b"]


def test_seek_before_the_assignment_is_where_reading_begins():
    subscription = Subscription(["a"])
    subscription.seek(A1, 7)
    subscription.topics_seen({"a": ("id-a", 2)})
    assert (subscription.assigned[A0].position, subscription.assigned[A1].position) == (UNKNOWN, 7)
    assert subscription.readable


def test_pause_gives_up_what_was_fetched_ahead():
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.assigned[A0]
    state.seek(0)
    state.position, state.fetch_offset = 5, 100
    subscription.pause(A0)
    assert state.paused
    assert (state.position, state.fetch_offset) == (5, 5)
    subscription.resume(A0)
    assert not state.paused


@pytest.mark.parametrize("topics", [["no spaces"], [""], ["a", "b/c"]])
def test_illegal_topic_names_are_refused_at_once(topics):
    with pytest.raises(InvalidTopic):
        Subscription(topics)


def test_one_name_in_place_of_a_list_is_refused_with_a_hint():
    with pytest.raises(ConfigError) as caught:
        Subscription().subscribe("orders")
    assert caught.value.hint == "give ['orders']"


def test_negative_offsets_and_partitions_that_are_not_assigned_are_refused():
    subscription = Subscription()
    with pytest.raises(ConfigError, match="offsets begin at 0"):
        subscription.seek(A0, -1)
    with pytest.raises(ConfigError, match="a-0 is not assigned"):
        subscription.state(A0)


def test_position_lost_to_retention_is_never_found_before_what_was_read():
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.assigned[A0]
    state.begin(10)
    assert not state.has_read
    state.fetch_offset = 40
    state.lose_position()
    assert state.fetch_offset == UNKNOWN
    state.begin(30)  # another leader may have kept more
    assert (state.position, state.fetch_offset) == (40, 40)
    state.lose_position()
    state.begin(50)
    assert state.position == 50
    subscription.seek(A0, 3)
    state.lose_position()
    state.begin(0)
    assert state.position == 0, "nothing was read since the seek"


def test_pause_does_not_forget_how_far_was_read():
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.assigned[A0]
    state.begin(0)
    state.position, state.fetch_offset = 5, 100
    subscription.pause(A0)
    state.lose_position()
    state.begin(0)
    assert state.position == 5


def test_topic_or_partition_that_is_out_of_sight_for_a_moment_keeps_its_position():
    subscription = Subscription(["a"])
    subscription.topics_seen({"a": ("id-1", 2)})
    subscription.assigned[A0].seek(5)
    subscription.assigned[A1].seek(6)
    assert subscription.topics_seen({}) == ["a"]
    assert not subscription.readable
    subscription.topics_seen({"a": ("id-1", 1)})
    subscription.topics_seen({"a": ("id-1", 2)})
    assert [state.position for state in subscription.assigned.values()] == [5, 6]
    assert subscription.readable


def test_assigned_partition_of_a_topic_created_anew_is_read_from_its_beginning():
    subscription = Subscription()
    subscription.assign([A0, B0])
    subscription.recreated({"a": ("id-1", 1)})
    subscription.seek(A0, 5)
    subscription.seek(B0, 6)
    subscription.recreated({"a": ("id-2", 1), "b": ("id-b", 1)})
    assert (subscription.assigned[A0].position, subscription.assigned[A0].from_beginning) == (UNKNOWN, True)
    assert subscription.assigned[B0].position == 6
    assert set(subscription.assigned) == {A0, B0}


def test_topic_subscribed_to_after_some_partitions_were_assigned_is_read_as_a_whole():
    a2, a7 = TopicPartition("a", 2), TopicPartition("a", 7)
    subscription = Subscription()
    subscription.assign([a2, a7])
    subscription.recreated({"a": ("id-1", 3)})
    subscription.seek(a2, 5)
    subscription.subscribe(["a"])
    subscription.topics_seen({"a": ("id-1", 3)})
    assert set(subscription.assigned) == {A0, A1, a2}, "and not what never was there"
    assert subscription.assigned[a2].position == 5
