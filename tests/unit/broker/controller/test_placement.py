"""Placement: even, in all racks, leaders round robin."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.decisions.placement import alternating, check_assignment, place
from ottla.wire.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor

FIVE_IN_TWO = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b"}

clusters = st.dictionaries(st.integers(0, 50), st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9)


@st.composite
def balanced_clusters(draw):
    """Racks of the same size: there evenness and racks do not pull in different directions."""
    racks, per_rack = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return {rack * 10 + place: f"rack {rack}" for rack in range(racks) for place in range(per_rack)}


def test_five_brokers_in_two_racks_get_six_replicas_and_two_leaders_each():
    placed = place(10, 3, FIVE_IN_TWO)
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(FIVE_IN_TWO, 6)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(FIVE_IN_TWO, 2)
    assert all({FIVE_IN_TWO[broker] for broker in replicas} == {"a", "b"} for replicas in placed)


@given(clusters, st.integers(1, 40), st.integers(1, 9), st.integers(0, 100))
def test_every_partition_has_distinct_live_replicas_in_as_many_racks_as_can_be(racks, partitions, factor, start):
    factor = min(factor, len(racks))
    for replicas in place(partitions, factor, racks, start):
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= racks.keys()
        reachable = min(factor, len(set(racks.values())))
        assert len({racks[broker] for broker in replicas}) == reachable


@given(clusters, st.integers(1, 40), st.integers(1, 9), st.integers(0, 100))
def test_leaders_go_round_robin(racks, partitions, factor, start):
    placed = place(partitions, min(factor, len(racks)), racks, start)
    led = Counter(replicas[0] for replicas in placed)
    assert max(led.values()) - min(led[broker] for broker in racks) <= 1
    ring = alternating(racks)
    assert [replicas[0] for replicas in placed] == [ring[(start + p) % len(ring)] for p in range(partitions)]


@given(balanced_clusters(), st.integers(1, 40), st.integers(1, 16), st.integers(0, 100))
def test_with_racks_of_one_size_replicas_are_even_within_one_per_round(racks, partitions, factor, start):
    factor = min(factor, len(racks))
    whole_rounds = partitions * len(racks)
    held = Counter(broker for replicas in place(whole_rounds, factor, racks, start) for broker in replicas)
    assert set(held.values()) == {partitions * factor}
    held = Counter(broker for replicas in place(partitions, factor, racks, start) for broker in replicas)
    assert max(held.values()) - min(held[broker] for broker in racks) <= factor


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 9))
def test_without_racks_replicas_are_even_after_whole_rounds(brokers, rounds, factor):
    racks = dict.fromkeys(range(brokers))
    held = Counter(b for replicas in place(rounds * brokers, min(factor, brokers), racks) for b in replicas)
    assert max(held.values()) - min(held.values()) <= 1


@pytest.mark.parametrize("factor", [0, -1, 6])
def test_a_replication_factor_that_the_brokers_cannot_give_is_refused(factor):
    with pytest.raises(InvalidReplicationFactor, match="number of live brokers, 5"):
        place(1, factor, FIVE_IN_TWO)


@pytest.mark.parametrize("partitions", [0, -3, 10_001])
def test_a_number_of_partitions_out_of_bounds_is_refused(partitions):
    with pytest.raises(InvalidPartitions):
        place(partitions, 1, FIVE_IN_TWO)


def test_the_ring_changes_the_rack_with_every_step_while_it_can():
    assert alternating(FIVE_IN_TWO) == [1, 4, 2, 5, 3]


def test_an_assignment_by_hand_is_taken_as_it_is():
    assert check_assignment([(3, 1), (1, 2)], FIVE_IN_TWO) == [[3, 1], [1, 2]]


@pytest.mark.parametrize("assignment", [[[1, 1]], [[1, 2], [3]], [[]], [[1, 77]]])
def test_an_assignment_by_hand_with_doubles_gaps_or_strangers_is_refused(assignment):
    with pytest.raises(InvalidReplicaAssignment):
        check_assignment(assignment, FIVE_IN_TWO)


def test_a_broker_that_is_named_twice_is_told():
    with pytest.raises(InvalidReplicaAssignment, match="broker 1 is named twice"):
        check_assignment([[2, 1, 3, 1]], FIVE_IN_TWO)


def test_an_assignment_of_nothing_is_refused():
    with pytest.raises(InvalidPartitions):
        check_assignment([], FIVE_IN_TWO)
