"""The patterns that members of one group subscribe by, and which topics they match. Pure.

What takes many steps is not matched here, for it would keep the event loop: somebody is to match what is ``slow`` in a thread.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.groups.consumers import Consumer
from ottla.broker.groups.topic_patterns import STEPS_INLINE, STEPS_MAX, Matched, OutOfSteps, TopicPattern
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import InvalidRegularExpression


class SubscribedPatterns:
    """``take`` is to be told what the ``slow`` ones match of ``names``."""

    def __init__(self) -> None:
        self._matched: dict[str, Matched] = {}
        self.slow: frozenset[str] = frozenset()
        self.names: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        """Those of members that take too many steps even for a thread."""

    def check(self, request: ConsumerGroupHeartbeatRequest, member: Consumer | None) -> None:
        """InvalidRegularExpression if a member subscribes by what is no pattern, or by one that takes too long to match."""
        pattern = request.pattern if request.pattern is not None or member is None else member.pattern
        if not pattern:
            return
        if pattern in self._refused:
            raise InvalidRegularExpression(
                f"{pattern[:100]!r} takes more than {STEPS_MAX} steps to match the topics that there are: use a simpler one"
            )
        self.get(pattern)

    def get(self, pattern: str) -> Matched:
        """What is known of it. InvalidRegularExpression if it is none."""
        return self._matched.get(pattern) or Matched(TopicPattern(pattern))

    def look(self, names: frozenset[str], members: Sequence[Consumer], topic_names: Mapping[str, str]) -> None:
        """See which topics the members' patterns match, as far as that takes few steps.

        The others match what they matched before; one that was never matched, what those have who subscribe by it.
        """
        steps, slow = STEPS_INLINE, set()
        looked: dict[str, Matched] = {}
        for pattern in sorted({member.pattern for member in members if member.pattern is not None}):
            matched = self.get(pattern)
            if pattern in self._refused:
                looked[pattern] = matched
                continue
            try:
                looked[pattern], steps = matched.look_within(names, steps)
            except OutOfSteps:
                steps = 0  # so many patterns that take long cost no more than one of them
                slow.add(pattern)
                if not matched.looked:
                    matched = matched._replace(names=_topics_had_by(pattern, members, topic_names))
                looked[pattern] = matched
        self._matched, self.slow, self.names = looked, frozenset(slow), names
        self._refused &= looked.keys()

    def take(self, found: Iterable[Matched]) -> None:
        """These were slow, and are matched now, or refused. Who subscribes by a refused one keeps the topics that it has."""
        for matched in found:
            pattern = matched.pattern.pattern
            self.slow -= {pattern}
            if pattern not in self._matched:
                continue
            if matched.is_refused:
                self._refused |= {pattern}
            else:
                self._matched[pattern] = matched


def _topics_had_by(pattern: str, members: Sequence[Consumer], names: Mapping[str, str]) -> frozenset[str]:
    """The topics that those have who subscribe by a pattern: until it is matched they keep them. ``names``: by ids."""
    targets = [member.target for member in members if member.pattern == pattern]
    return frozenset(names[one[0]] for target in targets for one in target if one[0] in names)
