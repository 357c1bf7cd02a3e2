"""The protocol keeps its promises with all rules on, and breaks one of them with any rule off.

``pytest tests/model -s`` prints the number of states, and what each rule's absence leads to, step by step.
"""

import pytest

from tests.model.protocol import Protocol
from tests.model.rules import RULES
from tests.model.search import search
from tests.model.states import Bounds

TWO = (0, 1)

ALL_OF_IT = {
    "three leader changes": Bounds(4, 1, 0, 0, 0),
    "two records, two leader changes": Bounds(3, 2, 0, 0, 0),
    "an isr change, two leader changes": Bounds(3, 1, 1, 0, 0, isr=TWO),
    "two isr changes, a leader change": Bounds(2, 1, 2, 0, 0, isr=TWO),
    "a restart that loses the tail": Bounds(3, 1, 0, 1, 1),
    "eligible leaders, a join and a fence": Bounds(2, 1, 1, 1, 0, min_insync=2, isr=(0,), elr=(1,)),
    "min.insync.replicas is lowered": Bounds(2, 1, 1, 1, 0, min_insync=2, isr=(0,), elr=(1,), lowered=True),
    "an empty disk": Bounds(3, 1, 0, 1, 0, wipes=1),
    "an empty disk of the last in sync": Bounds(3, 1, 0, 2, 0, isr=(0,), wipes=1),
    "a move": Bounds(3, 1, 1, 0, 0, isr=TWO, replicas=TWO, moves=1),
    "two moves and a join": Bounds(3, 1, 1, 0, 0, isr=TWO, replicas=TWO, moves=2),
    "a disk that fails at an election": Bounds(3, 1, 0, 1, 0, failures=1),
    "a join and a restart that loses the tail": Bounds(2, 1, 1, 1, 1, isr=TWO),
    "a join that the controller has not heard of, and a restart": Bounds(3, 1, 1, 1, 0, isr=TWO),
    "a leader that its followers do not reach, and a fence": Bounds(2, 1, 0, 1, 0, min_insync=2),
}

DEEP = {
    "a leader that its followers do not reach, a join and a fence": Bounds(3, 1, 1, 1, 0, min_insync=2),
    "two records, two isr changes": Bounds(3, 2, 2, 0, 0),
    "a join that the controller has not heard of, and two restarts": Bounds(3, 1, 1, 2, 0, isr=TWO),
    "a move to its end and another": Bounds(4, 1, 1, 0, 0, isr=TWO, replicas=TWO, moves=2),
    "an isr change and two restarts that lose the tail": Bounds(3, 1, 1, 2, 2),
    "eligible leaders, a join and two fences": Bounds(2, 1, 1, 2, 0, min_insync=2, isr=(0,), elr=(1,)),
    "an empty disk of the last in sync, and a join": Bounds(3, 1, 1, 2, 0, isr=(0,), wipes=1),
    "min.insync.replicas 2, eligible leaders": Bounds(4, 1, 2, 2, 1, min_insync=2, isr=TWO),
}

WHERE_IT_SHOWS = {
    "shrinkBeforeCas": Bounds(2, 1, 1, 0, 0),
    "noMaximalIsr": Bounds(2, 1, 1, 0, 0, isr=TWO),
    "unfencedFetch": Bounds(4, 1, 0, 0, 0),
    "lenOnly": Bounds(3, 2, 0, 0, 0),
    "blindElect": Bounds(2, 1, 1, 0, 0),
    "noEpochStart": Bounds(3, 1, 1, 0, 0, isr=TWO),
    "truncToHW": Bounds(3, 1, 0, 0, 0),
    "unfencedTruncate": Bounds(4, 1, 0, 0, 0),
    "noBounce": Bounds(2, 1, 0, 1, 1),
    "noBeCheck": Bounds(2, 1, 1, 1, 1, isr=TWO),
    "noKip380": Bounds(3, 1, 0, 1, 1),
    "formerLifeFetch": Bounds(2, 1, 1, 1, 1, isr=TWO),
    "outlivedEligible": Bounds(2, 1, 0, 1, 0, min_insync=2, isr=(0,), elr=(1,), lowered=True),
    "emptyDisk": Bounds(2, 1, 0, 1, 0, wipes=1),
    "secondMove": Bounds(3, 1, 0, 0, 0, isr=TWO, replicas=TWO, moves=2),
    "failedElection": Bounds(3, 1, 0, 1, 0, failures=1),
    "oldEpoch": Bounds(2, 1, 1, 1, 0, isr=TWO),
    "cutOffElect": Bounds(3, 1, 0, 1, 0, min_insync=2, isr=TWO),
    "suspectTail": Bounds(2, 1, 0, 1, 1),
}


LONGEST = {
    "a restart that loses the tail",
    "min.insync.replicas is lowered",
    "an empty disk",
    "a disk that fails at an election",
}
"""Each takes ten seconds or more: they run with ``-m deep``."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(bounds, id=name, marks=[pytest.mark.deep] if name in LONGEST else [])
        for name, bounds in ALL_OF_IT.items()
    ],
)
def test_with_all_rules_no_acked_record_is_ever_lost(bounds):
    found = search(Protocol(bounds), states_max=2_000_000)
    print(f"\n{bounds}: {found}")
    assert not found.broken, found
    assert found.exhausted, found
    assert found.states > 1000  # or the model has come to a standstill and proves nothing


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("bounds", DEEP.values(), ids=DEEP.keys())
def test_with_all_rules_no_acked_record_is_lost_in_a_long_search_either(bounds):
    found = search(Protocol(bounds), states_max=6_000_000)
    print(f"\n{bounds}: {found}")
    assert not found.broken, found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_a_promise_is_broken(rule):
    found = search(Protocol(WHERE_IT_SHOWS[rule], frozenset({rule})), states_max=400_000)
    print(f"\nwithout the rule that {RULES[rule]}: {found}")
    assert found.broken, f"{rule} off and nothing broken: {found}"
    assert len(found.trace) > 1


def test_a_search_that_is_cut_short_says_so():
    found = search(Protocol(Bounds(4, 1, 0, 0, 0)), states_max=100)
    assert not found.exhausted
    assert not found.broken
