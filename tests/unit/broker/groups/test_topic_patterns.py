"""Patterns of subscriptions: what they match, what is refused, and that none takes long."""

import random
import re
import string
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.groups.topic_patterns import ALPHABET, PATTERN_MAX, TopicPattern
from ottla.wire.errors import InvalidRegularExpression

NAMES = ["orders", "orders-1", "orders-22", "Orders", "a.b", "a_b", "x", "", "aaa", "logs.2026-01", "-", "bills"]

PATTERNS = [
    "orders", "orders-.*", "^orders-\\d+$", "orders(-\\d)?", "(orders|bills)", "(?:orders|bills)-?.*", "o.*s", "[a-o].*",
    "[^o].*", "[[:alpha:]]+", "a[._]b", "a\\.b", "a{3}", "a{1,2}", "a{2,}", "a*?", "a+?", "(?i)orders", "(?i:O)rders",
    "\\w+", "\\W", "\\Aorders\\z", "\\Qa.b\\E", "(a*)*", "(a|aa)+", "", "|x", "x|", "()", "[-x]", "[x-]", "[]x]", ".*1|x",
    "(?P<name>orders)", "[\\d.a-z-]+", "o^rders", "a$a", "(^orders$|^bills$)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_pythons_own_does(pattern: str) -> None:
    same = pattern.replace("\\z", "\\Z").replace("[[:alpha:]]", "[a-zA-Z]").replace("\\Qa.b\\E", "a\\.b")
    ours = TopicPattern(pattern)
    assert [name for name in NAMES if ours.matches(name)] == [name for name in NAMES if re.fullmatch(same, name)]


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "(a", "*", "+a", "a**b(", "[a", "[b-a]", "a{2", "a{3,1}", "a{1001}", "\\", "\\1", "\\b", "(?=a)", "(?!a)",
     "(?<=a)", "(?<!a)", "(?P<n", "(?x)a", "[[:nothing:]]", "(" * 60 + ")" * 60, "(a{100}){100}", "((a{9}){9}){9}{9}",
     "x" * (PATTERN_MAX + 1)],
)  # fmt: skip
def test_what_is_no_pattern_or_too_large_a_one_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        TopicPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)x1", "(a?){200}b"])
def test_a_pattern_that_holds_a_backtracking_matcher_for_ever_does_not_hold_this_one(pattern: str) -> None:
    began = time.process_time()
    assert not TopicPattern(pattern).matches("a" * 249)
    assert time.process_time() - began < 2.0


def names_of(count: int, length: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(sorted(ALPHABET), k=length)) for _ in range(count)]


@pytest.mark.parametrize("pattern", [".{0,330}", "(.?){250}", "((.|..).?){100}x", ".*[a-m]((..|.)(.|..)){60}"])
def test_a_pattern_of_many_states_looks_at_a_hundred_long_names_at_once(pattern: str) -> None:
    """On the event loop: three to six seconds while the states were sets, and what was known depended on each letter."""
    began = time.process_time()
    TopicPattern(pattern).matching(names_of(100, 240))
    assert time.process_time() - began < 2.0


def test_what_a_pattern_has_found_out_takes_no_memory_afterwards() -> None:
    """25 megabytes for this one, in a group that may have a thousand such patterns."""
    tracemalloc.start()
    try:
        pattern = TopicPattern(".{0,330}")
        assert len(pattern.matching(names_of(100, 20))) == 100
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


letters = st.sampled_from([*string.ascii_lowercase[:3], ".", "_", "[ab]", "[^a]", "\\d"])
patterns = st.recursive(
    letters,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda both: f"({both[0]}|{both[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])).map(lambda both: f"({both[0]}){both[1]}")
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(patterns, st.text("abc._1", max_size=6))
def test_any_pattern_matches_what_pythons_own_does(pattern: str, name: str) -> None:
    assert TopicPattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)
