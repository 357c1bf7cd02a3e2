"""A good history of a group passes; each thing that must not be is found, and called by its name."""

from dataclasses import replace

import pytest

from ottla.chaos.checker import check
from ottla.chaos.checker.groups import committed_back, committed_unread, group_missed, owned_twice
from ottla.chaos.checker.violation import Rule
from ottla.chaos.history import GroupCommit, GroupPoll, History, Read

GOOD = History(
    [],
    {0: [Read(offset, b"%d" % offset) for offset in range(20)], 1: [Read(0, b"x")]},
    group_polls=[
        GroupPoll("a", 1, 1.0, 0, 0, 10),
        GroupPoll("a", 1, 1.0, 1, 0, 1),
        GroupPoll("b", 2, 3.0, 0, 5, 20),  # a was gone before its last commit: some is read again
    ],
    group_commits=[
        GroupCommit("a", 1, 1.1, 1.2, 0, 5),
        GroupCommit("a", 1, 1.1, 1.2, 1, 1),
        GroupCommit("b", 2, 3.1, 3.2, 0, 20),
    ],
)
RULES: list[Rule] = [owned_twice, committed_back, committed_unread, group_missed]


def test_good_history_passes() -> None:
    assert [list(rule(GOOD)) for rule in RULES] == [[], [], [], []]
    assert {found.kind for found in check(GOOD)} & {
        "two owners",
        "committed back",
        "committed unread",
        "missed by the group",
    } == set()


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"group_polls": [*GOOD.group_polls, GroupPoll("b", 1, 2.0, 0, 5, 6)]}, "two owners"),
        ({"group_commits": [*GOOD.group_commits, GroupCommit("a", 1, 4.0, 4.1, 0, 6)]}, "committed back"),
        ({"group_commits": [GroupCommit("a", 1, 1.1, 1.2, 0, 11)]}, "committed unread"),
        ({"group_commits": [GroupCommit("a", 1, 0.5, 0.6, 0, 5)]}, "committed unread"),
        ({"group_polls": [GroupPoll("a", 1, 1.0, 0, 3, 20), GroupPoll("a", 1, 1.0, 1, 0, 1)]}, "missed by the group"),
        ({"group_polls": GOOD.group_polls[:2]}, "missed by the group"),
    ],
)
def test_what_must_not_be_is_found(changed: dict[str, object], kind: str) -> None:
    bad = replace(GOOD, **changed)  # type: ignore[arg-type]
    assert kind in {found.kind for rule in RULES for found in rule(bad)}


def test_commits_that_cross_on_their_way_are_no_violation() -> None:
    crossing = [GroupCommit("a", 1, 1.1, 5.0, 0, 5), GroupCommit("b", 2, 3.1, 3.2, 0, 20)]
    assert list(committed_back(replace(GOOD, group_commits=crossing))) == []
