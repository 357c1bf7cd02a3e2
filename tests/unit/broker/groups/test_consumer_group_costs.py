"""What a group whose coordinator assigns costs on the event loop does not grow with members times topics."""

import random
import threading
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.groups import cluster_changes
from ottla.broker.groups.consumer_membership import ConsumerGroup, TopicShape
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.limits import ConsumerGroupTimes
from ottla.broker.groups.membership import Client, Write
from ottla.broker.groups.topic_patterns import Matched, TopicPattern, match_slow
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import GroupMaxSizeReached, InvalidRegularExpression
from tests.support.machine import scaled
from tests.support.waiting import eventually

TOPICS = 100
MEMBERS = 50


class CountingTopics:
    def __init__(self) -> None:
        self.shapes = {f"t{number}": TopicShape(f"id{number}", 2) for number in range(TOPICS)}
        self.asked = 0

    def shape_of(self, name: str) -> TopicShape | None:
        self.asked += 1
        return self.shapes.get(name)

    def names(self) -> Iterable[str]:
        return list(self.shapes)


@pytest.mark.parametrize(("topics", "pattern"), [(tuple(f"t{number}" for number in range(TOPICS)), None), ((), "t.*")])
def test_what_all_members_want_is_looked_up_once_for_all(topics: tuple[str, ...], pattern: str | None) -> None:
    known = CountingTopics()
    times = ConsumerGroupTimes()
    group = ConsumerGroup("g", lambda name: name, known, max_size=MEMBERS, times=times)
    for number in range(MEMBERS):
        known.asked = 0
        joins = ConsumerGroupHeartbeatRequest("g", f"m{number}", 0, None, None, 1000, topics, pattern, owned=())
        group.heartbeat(number, joins, Client("c", "h"), 0.0)
        assert known.asked <= TOPICS
    assert sum(len(member.target) for member in group.members) == 2 * TOPICS


def join(member: str, topics: tuple[str, ...], instance: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest("g", member, 0, instance, None, 1000, topics, owned=())


def refusals(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> list[int]:
    effects = group.heartbeat("ticket", request, Client("c", "h"), 0.0)
    answers = [answer for one in effects for answer in (one.then if isinstance(one, Write) else (one,))]
    return [code for one in answers if (code := getattr(one.response, "error_code", 0))]


@pytest.mark.parametrize("name", ["群", "\x01", "a"])
def test_what_members_tell_of_themselves_is_counted_as_it_is_written(name: str) -> None:
    """Else a group is too large only when it is written, and is read anew for all of its members."""
    group = ConsumerGroup("g", lambda name: name, CountingTopics(), max_size=1000, times=ConsumerGroupTimes())
    topics = tuple(f"{name}{number}" for number in range(10_000))
    while not refusals(group, join(f"m{len(group.members)}", topics)):
        assert not group.record().is_larger_than(900_000)
    assert len(group.members) >= 2


def test_a_static_member_that_comes_back_is_not_counted_twice() -> None:
    times = ConsumerGroupTimes()
    group = ConsumerGroup("g", lambda name: name, CountingTopics(), max_size=10, times=times, max_metadata_bytes=900)
    topics = tuple(f"topic{number:05d}" for number in range(30))  # 400 bytes
    assert refusals(group, join("m", topics, "first")) == []
    assert refusals(group, join("n", topics, "second")) == []
    assert refusals(group, join("o", topics, "third")) == [GroupMaxSizeReached.code]
    assert refusals(group, ConsumerGroupHeartbeatRequest("g", "m", -2, "first")) == []
    assert refusals(group, join("m again", topics, "first")) == []


@pytest.mark.parametrize("pattern", [".*", "(.*1.*0){100}", "(((.*)*)*)*" * 40, "(0|1|.)*" * 60])
def test_a_pattern_that_takes_long_is_left_to_a_thread(pattern: str) -> None:
    """One heartbeat took 3 s of the event loop. Until it is matched, members keep what they have."""
    known = CountingTopics()
    known.shapes = {f"{'ab' * 100}-{n}": TopicShape(f"id{n}", 1) for n in range(5_000)}
    group = ConsumerGroup("g", lambda name: name, known, max_size=10, times=ConsumerGroupTimes())
    joins = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1000, (), pattern, owned=())
    began = time.thread_time()
    answers = group.heartbeat("ticket", joins, Client("c", "h"), 0.0)
    assert time.thread_time() - began < scaled(0.1)
    assert answers
    assert group.patterns.slow == {pattern}
    (member,) = group.members
    assert not member.target
    names = frozenset(list(known.shapes)[:100])  # as if all were matched: that takes long
    matched = match_slow(pattern, names)
    assert not matched.is_refused
    known.shapes = {name: known.shapes[name] for name in names}
    effects = group.patterns_matched([matched])
    assert group.patterns.slow == frozenset()
    assert len(member.target) == len(matched.names)
    assert bool(effects) == bool(matched.names)
    # A coordinator that takes the group over matches anew, and takes nothing away meanwhile.
    known.shapes |= {f"{'ab' * 100}-{n}": TopicShape(f"id{n}", 1) for n in range(5_000)}
    later = ConsumerGroup("g", lambda name: name, known, max_size=10, times=ConsumerGroupTimes())
    later.load(group.record(), 0.0)
    later.topics_changed()
    (loaded,) = later.members
    assert loaded.target == member.target
    assert later.patterns.slow == {pattern}


SLOW_PATTERN = "(?:" + "|".join(f".*{letter}.{{30}}" for letter in "abxyz" * 4) + ")*q"


def long_names(count: int) -> list[str]:
    letters = random.Random(1)
    return ["".join(letters.choices("abxyz", k=100)) for _ in range(count)]


def test_pattern_that_takes_too_many_steps_in_the_thread_is_refused() -> None:
    known = CountingTopics()
    known.shapes = {name: TopicShape(f"id-{name}", 1) for name in long_names(300)}
    group = ConsumerGroup("g", lambda name: name, known, max_size=10, times=ConsumerGroupTimes())
    joins = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1000, (), SLOW_PATTERN, owned=())
    assert refusals(group, joins) == []
    assert group.patterns.slow == {SLOW_PATTERN}
    matched = match_slow(SLOW_PATTERN, group.patterns.names, 50_000)
    assert matched.is_refused
    group.patterns_matched([matched])
    assert group.patterns.slow == frozenset(), "it is not matched again and again"
    group.topics_changed()
    assert group.patterns.slow == frozenset()
    # Its member hears it, and so does who comes with it anew. With another pattern the member goes on.
    (member,) = group.members
    epoch = member.epoch
    assert refusals(group, ConsumerGroupHeartbeatRequest("g", "m", epoch)) == [InvalidRegularExpression.code]
    other = ConsumerGroupHeartbeatRequest("g", "n", 0, None, None, 1000, (), SLOW_PATTERN, owned=())
    assert refusals(group, other) == [InvalidRegularExpression.code]
    simple = ConsumerGroupHeartbeatRequest("g", "m", epoch, None, None, 1000, (), "a.*", owned=())
    assert refusals(group, simple) == []


def test_many_slow_patterns_cost_a_group_no_more_than_one() -> None:
    known = CountingTopics()
    known.shapes = {name: TopicShape(f"id-{name}", 1) for name in long_names(300)}
    group = ConsumerGroup("g", lambda name: name, known, max_size=100, times=ConsumerGroupTimes())
    slow = [SLOW_PATTERN + "z" * number for number in range(80)]
    for number, pattern in enumerate(slow):
        joins = ConsumerGroupHeartbeatRequest("g", f"m{number}", 0, None, None, 1000, (), pattern, owned=())
        assert refusals(group, joins) == []
    assert group.patterns.slow == set(slow)
    began = time.thread_time()
    group.patterns.look(frozenset(known.shapes), list(group.members), {})
    assert time.thread_time() - began < scaled(0.1)


async def test_patterns_of_groups_take_turns_in_a_thread_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []
    threads: set[str] = set()

    def match(pattern: str, names: frozenset[str]) -> Matched:
        matched.append(pattern)
        threads.add(threading.current_thread().name)
        return Matched(TopicPattern(pattern), names)

    monkeypatch.setattr(cluster_changes, "match_slow", match)
    changes: cluster_changes.ClusterChanges
    groups = SimpleNamespace(apply=lambda coordinated, effects: changes.work_in_thread(coordinated))
    changes = cluster_changes.ClusterChanges(cast(Any, groups))
    both = []
    for name in "ab":
        group = ConsumerGroup(name, lambda name: name, CountingTopics(), max_size=10, times=ConsumerGroupTimes())
        group.patterns.slow = frozenset(f"{name}{number}" for number in range(3))
        both.append(Coordinated(group, cast(Any, None)))
    for coordinated in both:
        changes.work_in_thread(coordinated)
    await eventually(lambda: len(matched) == 6)
    assert matched == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert all(name.startswith("match patterns") for name in threads)
    changes.stop()


def test_what_takes_long_to_be_shared_is_left_to_a_thread() -> None:
    """A hundred members with different wishes for a thousand topics took 1 to 4 s at each join."""
    known = CountingTopics()
    known.shapes = {f"t{n}": TopicShape(f"id{n}", 6) for n in range(1_000)}
    group = ConsumerGroup("g", lambda name: name, known, max_size=100, times=ConsumerGroupTimes())
    names = list(known.shapes)
    for number in range(3):
        group.heartbeat("ticket", join(f"m{number}", tuple(names[number * 100 :])), Client("c", "h"), 0.0)
        assert group.to_share is not None
        sharing, before = group.to_share, {member.member_id: member.target for member in group.members}
        assert before == sharing.current, "until then members keep what they have"
        epoch = group.epoch
        assert group.partitions_shared(sharing, sharing.share())
        assert group.epoch == epoch + 1
        assert group.to_share is None
        assert sum(len(member.target) for member in group.members) == 6_000
    # What was shared for a group that is another one by now is not taken.
    group.heartbeat("ticket", join("m3", tuple(names[1:])), Client("c", "h"), 0.0)
    old = group.to_share
    assert old is not None
    group.heartbeat("ticket", ConsumerGroupHeartbeatRequest("g", "m0", -1), Client("c", "h"), 0.0)
    targets = {member.member_id: member.target for member in group.members}
    assert group.to_share is not old
    assert group.partitions_shared(old, old.share()) == []
    assert {member.member_id: member.target for member in group.members} == targets
    assert len({one for target in targets.values() for one in target}) == sum(map(len, targets.values()))
