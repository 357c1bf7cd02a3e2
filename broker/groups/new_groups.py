"""How many groups a client brings into being: each costs znodes and memory."""

from collections.abc import Hashable

from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.wire.errors import GroupIdNotFound, PolicyViolation

GROUPS_OF_A_CONNECTION = 100


class NewGroups:
    """Counted by connection."""

    def __init__(self) -> None:
        self._connections: dict[Hashable, GroupsOfConnection] = {}

    def of(self, connection: Hashable) -> "GroupsOfConnection":
        """Of one that is open."""
        return self._connections.setdefault(connection, GroupsOfConnection())

    def closed(self, connection: Hashable) -> None:
        self._connections.pop(connection, None)


class GroupsOfConnection:
    """Those that did not exist when it first asked for them."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    async def get_or_make(self, groups: Groups, group_id: str) -> Coordinated:
        """The group; PolicyViolation if it is one too many that does not exist."""
        try:
            return await groups.get(group_id, make=False)
        except GroupIdNotFound:
            self.count(group_id)
            return await groups.get(group_id)

    def count(self, group_id: str) -> None:
        """A group is about to be made, perhaps not for the first time."""
        if group_id not in self._made and len(self._made) >= GROUPS_OF_A_CONNECTION:
            raise PolicyViolation(
                f"{GROUPS_OF_A_CONNECTION} groups were brought into being over this connection, and {group_id!r} is another"
            )
        self._made.add(group_id)
