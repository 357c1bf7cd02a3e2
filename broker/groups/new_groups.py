"""How many groups a client brings into being: each costs znodes and memory."""

from collections import Counter
from collections.abc import Hashable

from ottla.wire.errors import PolicyViolation

GROUPS_OF_A_CONNECTION = 100


class NewGroups:
    """Counted by connection."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def count(self, connection: Hashable) -> None:
        """A group that was not at hand is asked for; PolicyViolation if there are too many."""
        self._counts[connection] += 1
        if self._counts[connection] > GROUPS_OF_A_CONNECTION:
            raise PolicyViolation(f"more than {GROUPS_OF_A_CONNECTION} groups over one connection")

    def closed(self, connection: Hashable) -> None:
        self._counts.pop(connection, None)
