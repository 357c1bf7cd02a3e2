"""How many groups a client brings into being: each costs znodes and memory."""

from collections.abc import Hashable

from ottla.wire.errors import PolicyViolation

GROUPS_OF_A_CONNECTION = 100


class NewGroups:
    """Counted by connection."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, set[str]] = {}

    def count(self, connection: Hashable, group_id: str) -> None:
        """A group that was not at hand is asked for, perhaps not for the first time; PolicyViolation if there are too many."""
        groups = self._groups.setdefault(connection, set())
        if group_id not in groups and len(groups) >= GROUPS_OF_A_CONNECTION:
            raise PolicyViolation(f"more than {GROUPS_OF_A_CONNECTION} groups over one connection")
        groups.add(group_id)

    def closed(self, connection: Hashable) -> None:
        self._groups.pop(connection, None)
