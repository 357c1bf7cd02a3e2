"""Who gets what: Kafka's own examples as a table, and what must hold for any group."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.groups.assignors import ASSIGNORS, Assignments
from ottla.wire.consumer_protocol import Subscription
from ottla.wire.names import TopicPartition

NAMES = sorted(ASSIGNORS)


def wants(**members: str) -> dict[str, Subscription]:
    """Members and their topics, one letter each."""
    return {member: Subscription(tuple(topics)) for member, topics in members.items()}


def short(assigned: Assignments) -> dict[str, str]:
    return {member: " ".join(f"{topic}{number}" for topic, number in got) for member, got in assigned.items()}


@pytest.mark.parametrize(
    ("name", "partitions", "members", "expected"),
    [
        ("range", {"t": 3, "u": 3}, wants(a="tu", b="tu"), {"a": "t0 t1 u0 u1", "b": "t2 u2"}),
        ("range", {"t": 2}, wants(a="t", b="t", c="t"), {"a": "t0", "b": "t1", "c": ""}),
        ("range", {"t": 2, "u": 2}, wants(a="t", b="tu"), {"a": "t0", "b": "t1 u0 u1"}),
        ("roundrobin", {"t": 3, "u": 3}, wants(a="tu", b="tu"), {"a": "t0 t2 u1", "b": "t1 u0 u2"}),
        (
            "roundrobin",
            {"t": 1, "u": 2, "v": 3},
            wants(a="t", b="tu", c="tuv"),
            {"a": "t0", "b": "u0", "c": "u1 v0 v1 v2"},
        ),
        ("sticky", {"t": 3}, wants(a="t", b="t"), {"a": "t0 t2", "b": "t1"}),
        ("sticky", {"t": 1, "u": 2, "v": 3}, wants(a="t", b="tu", c="tuv"), {"a": "t0", "b": "u0 u1", "c": "v0 v1 v2"}),
        ("range", {"t": 3}, wants(a="x"), {"a": ""}),
        ("sticky", {}, wants(a="t"), {"a": ""}),
    ],
)
def test_examples(
    name: str, partitions: dict[str, int], members: dict[str, Subscription], expected: dict[str, str]
) -> None:
    assert short(ASSIGNORS[name].assign(partitions, members)) == expected


topics = st.dictionaries(st.sampled_from("tuvw"), st.integers(0, 9), max_size=4)
groups = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("tuvwx")), min_size=1).map(
    lambda found: {member: Subscription(tuple(sorted(names))) for member, names in found.items()}
)
alike = st.sets(st.sampled_from("abcdefgh"), min_size=1).map(
    lambda names: {name: Subscription(("t", "u", "v", "w")) for name in names}
)


def everything(partitions: dict[str, int], members: dict[str, Subscription]) -> list[TopicPartition]:
    wanted = {topic for one in members.values() for topic in one.topics}
    return sorted(TopicPartition(t, n) for t in partitions if t in wanted for n in range(partitions[t]))


@pytest.mark.parametrize("name", NAMES)
@given(partitions=topics, members=groups)
def test_each_partition_has_one_owner_who_wants_it(
    name: str, partitions: dict[str, int], members: dict[str, Subscription]
) -> None:
    assigned = ASSIGNORS[name].assign(partitions, members)
    assert set(assigned) == set(members)
    assert sorted(chain.from_iterable(assigned.values())) == everything(partitions, members)
    assert all(topic in members[member].topics for member, got in assigned.items() for topic, _ in got)


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(partitions=topics, members=alike)
def test_where_all_want_the_same_nobody_has_two_more_than_another(
    name: str, partitions: dict[str, int], members: dict[str, Subscription]
) -> None:
    sizes = [len(got) for got in ASSIGNORS[name].assign(partitions, members).values()]
    assert max(sizes) - min(sizes) <= 1


def owning(assigned: Assignments, members: dict[str, Subscription], generation: int = 1) -> dict[str, Subscription]:
    """The members as they join again, with what they have."""
    return {
        member: Subscription(
            one.topics, None, tuple(assigned.get(member, ())), generation if member in assigned else -1
        )
        for member, one in members.items()
    }


@given(partitions=topics, members=alike, leaves=st.sampled_from("abcdefgh"))
def test_who_stays_keeps_all_it_has_when_another_leaves(
    partitions: dict[str, int], members: dict[str, Subscription], leaves: str
) -> None:
    before = ASSIGNORS["sticky"].assign(partitions, members)
    stay = {member: one for member, one in owning(before, members).items() if member != leaves}
    if stay:
        after = ASSIGNORS["sticky"].assign(partitions, stay)
        assert all(set(before[member]) <= set(after[member]) for member in stay)


@given(partitions=topics, members=alike)
def test_who_joins_takes_its_share_and_nothing_else_moves(
    partitions: dict[str, int], members: dict[str, Subscription]
) -> None:
    before = ASSIGNORS["sticky"].assign(partitions, members)
    more = owning(before, members) | {"new": Subscription(("t", "u", "v", "w"))}
    after = ASSIGNORS["sticky"].assign(partitions, more)
    assert all(set(after[member]) <= set(before[member]) for member in members)


@given(partitions=topics, members=groups, later=groups)
def test_cooperative_groups_never_give_what_another_still_has_and_come_to_rest(
    partitions: dict[str, int], members: dict[str, Subscription], later: dict[str, Subscription]
) -> None:
    held = ASSIGNORS["cooperative-sticky"].assign(partitions, members)
    generation = 1
    for _ in range(4):
        joining = owning({member: got for member, got in held.items() if member in later}, later, generation)
        given_now = ASSIGNORS["cooperative-sticky"].assign(partitions, joining)
        for member, got in given_now.items():
            claimed = {where for other in joining if other != member for where in joining[other].owned}
            assert not set(got) & claimed
        held, generation = given_now, generation + 1
    assert sorted(chain.from_iterable(held.values())) == everything(partitions, later)


def test_of_two_who_claim_the_same_the_later_generation_has_it() -> None:
    t0 = TopicPartition("t", 0)
    members = {"a": Subscription(("t",), None, (t0,), 3), "b": Subscription(("t",), None, (t0,), 5)}
    assert short(ASSIGNORS["cooperative-sticky"].assign({"t": 1}, members)) == {"a": "", "b": "t0"}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        # a has narrowed its subscription and still owns t0: b gets it in the next generation, not in this one.
        ({"a": ("u", "t0", 5), "b": ("t", "", 5)}, {"a": "", "b": ""}),
        ({"a": ("u", "", 6), "b": ("t", "", 6)}, {"a": "", "b": "t0"}),
        # A claim of an older generation does not make b the owner while a, which has narrowed its subscription, claims t0 too.
        ({"a": ("u", "t0", 5), "b": ("t", "t0", 4)}, {"a": "", "b": ""}),
        # Two claims of one generation: both must revoke t0 before anybody gets it.
        ({"a": ("t", "t0", 5), "b": ("t", "t0", 5)}, {"a": "", "b": ""}),
        # The owner keeps t0 whatever an older claim says, but it is not transferred to c while b claims it.
        ({"a": ("t", "t0", 5), "b": ("t", "t0", 4), "c": ("t", "", 5)}, {"a": "t0", "b": "", "c": ""}),
    ],
)
def test_cooperative_group_transfers_no_partition_that_somebody_claims(
    members: dict[str, tuple[str, str, int]], expected: dict[str, str]
) -> None:
    joining = {
        member: Subscription(tuple(topics), None, tuple(TopicPartition("t", 0) for _ in owned.split()), generation)
        for member, (topics, owned, generation) in members.items()
    }
    assert short(ASSIGNORS["cooperative-sticky"].assign({"t": 1}, joining)) == expected


def test_two_hundred_members_and_a_thousand_partitions_are_shared_at_once() -> None:
    members = {f"m{number:03}": Subscription(("t", "u")) for number in range(200)}
    for name in NAMES:
        assigned = ASSIGNORS[name].assign({"t": 600, "u": 400}, members)
        again = ASSIGNORS[name].assign({"t": 600, "u": 400}, owning(assigned, members))
        assert sum(map(len, again.values())) == 1000
