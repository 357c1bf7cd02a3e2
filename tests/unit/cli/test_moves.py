"""Which replicas are moved when brokers come and go."""

from collections import Counter

import pytest

from ottla.cli.moves import balanced, drained
from ottla.client import TopicPartition
from ottla.wire.errors import ConfigError

T = [TopicPartition("t", number) for number in range(12)]
THREE = dict.fromkeys(range(3))
FOUR = dict.fromkeys(range(4))


def replicas(layout):
    return Counter(broker for each in layout.values() for broker in each)


def test_a_drained_broker_has_nothing_and_the_others_share_what_it_had():
    layout = {where: [n % 4, (n + 1) % 4] for n, where in enumerate(T)}
    moves = drained(layout, THREE, 3)
    after = {**layout, **moves}
    assert all(3 in layout[where] for where in moves), "nothing else moves"
    assert replicas(after) == {0: 8, 1: 8, 2: 8}
    assert all(len(set(each)) == 2 for each in after.values())


def test_a_drained_replica_goes_to_another_rack_than_those_that_stay():
    racks = {0: "a", 1: "a", 2: "b"}
    assert drained({T[0]: [0, 3]}, racks, 3) == {T[0]: [0, 2]}


def test_where_no_broker_is_free_replicas_are_given_up_only_on_purpose():
    layout = {T[0]: [0, 1, 2, 3], T[1]: [0, 3]}
    with pytest.raises(ConfigError, match="t-0") as raised:
        drained(layout, THREE, 3)
    assert "--fewer-replicas" in str(raised.value.hint)
    assert drained(layout, THREE, 3, fewer=True) == {T[0]: [0, 1, 2], T[1]: [0, 1]}
    with pytest.raises(ConfigError):
        drained({T[0]: [3]}, {}, 3, fewer=True)


def test_a_new_broker_gets_its_share_of_replicas_and_preferred_leaders():
    layout = {where: [n % 3, (n + 1) % 3] for n, where in enumerate(T)}
    moves = balanced(layout, FOUR)
    after = {**layout, **moves}
    assert replicas(after) == {0: 6, 1: 6, 2: 6, 3: 6}
    assert len([where for where in T if 3 in after[where]]) == 6
    firsts = Counter(each[0] for each in after.values())
    assert max(firsts.values()) - min(firsts.values()) <= 1
    assert balanced(after, FOUR) == {}, "what is even stays"


def test_balance_takes_no_partition_out_of_a_rack():
    racks = {0: "a", 1: "a", 2: "b"}
    layout = {where: [0, 2] for where in T[:4]}
    after = {**layout, **balanced(layout, racks)}
    assert all({racks[broker] for broker in each} == {"a", "b"} for each in after.values())
    assert replicas(after) == {0: 2, 1: 2, 2: 4}


def test_brokers_that_are_down_are_left_alone():
    assert balanced({T[0]: [7], T[1]: [7, 0]}, {0: None, 1: None}) == {}
