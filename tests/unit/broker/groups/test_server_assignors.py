"""Who is to have what, where the coordinator decides it."""

import random
import time
from collections.abc import Mapping

import pytest

from ottla.broker.groups.server_assignors import ASSIGNORS, Assigned, Wanted, assign_range, assign_uniform

Written = dict[str, str]
"""By member, ``a0 a1 b0``."""


def wanted(partitions: Mapping[str, int], members: Mapping[str, str]) -> Wanted:
    return Wanted(
        partitions, {one: frozenset(topics) for one, topics in members.items()}, {one: one for one in members}
    )


def parsed(written: Written) -> Assigned:
    return {
        member: frozenset((one[0], int(one[1:])) for one in partitions.split())
        for member, partitions in written.items()
    }


UNIFORM: list[tuple[str, dict[str, int], Written, Written, Written]] = [
    ("nobody", {"a": 2}, {}, {}, {}),
    ("alone", {"a": 2}, {"m": "a"}, {}, {"m": "a0 a1"}),
    ("two begin", {"a": 4}, {"m": "a", "n": "a"}, {}, {"m": "a0 a1", "n": "a2 a3"}),
    ("one more comes", {"a": 4}, {"m": "a", "n": "a"}, {"m": "a0 a1 a2 a3"}, {"m": "a0 a1", "n": "a2 a3"}),
    ("one goes", {"a": 4}, {"m": "a"}, {"m": "a1 a2", "n": "a0 a3"}, {"m": "a0 a1 a2 a3"}),
    ("who has most keeps one more", {"a": 3}, {"m": "a", "n": "a"}, {"n": "a0 a1 a2"}, {"m": "a2", "n": "a0 a1"}),
    ("a topic grows", {"a": 4}, {"m": "a", "n": "a"}, {"m": "a1", "n": "a0"}, {"m": "a1 a2", "n": "a0 a3"}),
    ("a topic goes", {"a": 2}, {"m": "ab", "n": "ab"}, {"m": "a0 a1", "n": "b0 b1"}, {"m": "a0", "n": "a1"}),
    ("more members than partitions", {"a": 1}, {"m": "a", "n": "a"}, {"n": "a0"}, {"m": "", "n": "a0"}),
    ("what few want they get", {"a": 2, "b": 2}, {"m": "ab", "n": "a"}, {}, {"m": "b0 b1", "n": "a0 a1"}),
    ("nobody wants it", {"a": 2, "b": 2}, {"m": "a"}, {"m": "b0"}, {"m": "a0 a1"}),
    ("it wants that no more", {"a": 2, "b": 2}, {"m": "a", "n": "b"}, {"m": "b0 b1 a0"}, {"m": "a0 a1", "n": "b0 b1"}),
]


@pytest.mark.parametrize(
    ("partitions", "members", "current", "expected"), [row[1:] for row in UNIFORM], ids=[row[0] for row in UNIFORM]
)
def test_uniform(partitions: dict[str, int], members: Written, current: Written, expected: Written) -> None:
    assert assign_uniform(wanted(partitions, members), parsed(current)) == parsed(expected)


def test_range_gives_runs_that_go_together() -> None:
    found = assign_range(wanted({"a": 5, "b": 5, "c": 1}, {"n": "ab", "m": "abc"}), {})
    assert found == parsed({"m": "a0 a1 a2 b0 b1 b2 c0", "n": "a3 a4 b3 b4"})


def test_range_stands_in_line_by_name_so_that_a_static_member_keeps_its_place() -> None:
    both = Wanted({"a": 2}, {"m": frozenset("a"), "n": frozenset("a")}, {"m": "second", "n": "first"})
    assert assign_range(both, {}) == parsed({"m": "a1", "n": "a0"})


@pytest.mark.parametrize("seed", range(200))
def test_each_partition_goes_once_to_somebody_who_wants_it_and_nothing_moves_without_need(seed: int) -> None:
    chance = random.Random(seed)
    partitions = {topic: chance.randint(1, 9) for topic in "abcd"}

    def some(count: int) -> dict[str, str]:
        alike = chance.random() < 0.5
        topics = chance.choice(["ab", "abcd"])
        return {
            f"m{number}": topics if alike else "".join(chance.sample("abcd", chance.randint(1, 4)))
            for number in range(count)
        }

    members = some(chance.randint(1, 8))
    for name, assign in ASSIGNORS.items():
        shared = wanted(partitions, members)
        first = assign(shared, {})
        assert sorted(one for got in first.values() for one in got) == shared.all
        assert all(topic in members[member] for member, got in first.items() for topic, _ in got)
        assert assign(shared, first) == first, "what was decided is decided again"
        if name == "uniform" and len(set(members.values())) == 1:
            sizes = [len(got) for got in first.values()]
            assert max(sizes) - min(sizes) <= 1
            more = {**members, "new": next(iter(members.values()))}
            second = assign_uniform(wanted(partitions, more), first)
            moved = sum(len(first[member] - second[member]) for member in first)
            assert moved == len(second["new"]), "only what the new one gets has changed hands"


def test_members_that_want_nearly_the_same_of_many_topics_are_given_their_part_at_once() -> None:
    """On the event loop: it took fifteen seconds while every move was told to the lines of all topics."""
    topics = [f"t{number:04d}" for number in range(1000)]
    members = {f"m{number:02d}": frozenset(topics if number else topics[:50]) for number in range(20)}
    names = {one: one for one in members}
    partitions = dict.fromkeys(topics, 10)
    first = assign_uniform(Wanted(partitions, dict(list(members.items())[:10]), names), {})
    began = time.process_time()
    second = assign_uniform(Wanted(partitions, members, names), first)
    assert time.process_time() - began < 2.0
    assert sorted(map(len, second.values())) == [500] * 20
