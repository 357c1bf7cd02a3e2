"""What a group whose coordinator assigns costs on the event loop does not grow with members times topics."""

from collections.abc import Iterable

import pytest

from ottla.broker.groups.consumer_membership import ConsumerGroup, ConsumerGroupTimes, TopicShape
from ottla.broker.groups.membership import Client
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest

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
