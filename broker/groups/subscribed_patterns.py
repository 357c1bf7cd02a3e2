"""The patterns that members of one group subscribe by, and which topics they match. Pure.

What takes many steps is not matched here, for it would keep the event loop: somebody is to match what is ``slow`` in a thread.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.groups.consumers import Consumer
from ottla.broker.groups.topic_patterns import STEPS_INLINE, Matched, OutOfSteps, TopicPattern


class SubscribedPatterns:
    """``take`` is to be told what the ``slow`` ones match of ``names``."""

    def __init__(self) -> None:
        self._matched: dict[str, Matched] = {}
        self.slow: frozenset[str] = frozenset()
        self.names: frozenset[str] = frozenset()

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
            try:
                looked[pattern], steps = matched.look_within(names, steps)
            except OutOfSteps:
                slow.add(pattern)
                if not matched.looked:
                    matched = matched._replace(names=_topics_had_by(pattern, members, topic_names))
                looked[pattern] = matched
        self._matched, self.slow, self.names = looked, frozenset(slow), names

    def take(self, found: Iterable[Matched]) -> None:
        """These were slow, and are matched now."""
        self.slow = frozenset()
        for matched in found:
            if matched.pattern.pattern in self._matched:
                self._matched[matched.pattern.pattern] = matched


def _topics_had_by(pattern: str, members: Sequence[Consumer], names: Mapping[str, str]) -> frozenset[str]:
    """The topics that those have who subscribe by a pattern: until it is matched they keep them. ``names``: by ids."""
    targets = [member.target for member in members if member.pattern == pattern]
    return frozenset(names[one[0]] for target in targets for one in target if one[0] in names)
