"""Requests about a group whose clients hang up while it is being read."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.groups import GroupHandlers
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import GroupLimits
from ottla.broker.groups.membership import Client, Effect, Group
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.purgatory import Purgatory
from ottla.net.peer import Peer
from ottla.net.reply import Later
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest
from ottla.wire.groups import GroupProtocol, JoinGroupRequest, SyncGroupRequest


class GroupsBeingRead:
    """One group, which is not at hand until it ``is_read``."""

    def __init__(self, group: Group) -> None:
        self.limits = GroupLimits()
        self.is_read = asyncio.Event()
        self._coordinated = Coordinated(group, cast(Any, None))

    def loaded(self, group_id: str) -> Coordinated | None:
        return self._coordinated if self.is_read.is_set() else None

    async def get(self, group_id: str, *, make: bool = True) -> Coordinated:
        await self.is_read.wait()
        return self._coordinated

    def apply(self, coordinated: Coordinated, effects: list[Effect]) -> None:
        pass


def join_request(member_id: str, instance: str) -> JoinGroupRequest:
    return JoinGroupRequest("g", 10_000, 300_000, member_id, instance, "consumer", [GroupProtocol("range", b"")])


@pytest.fixture
def completing() -> Group:
    """A group of two that waits for its leader's assignment, as its next coordinator reads it."""
    ids: Iterator[str] = (f"m{number}" for number in range(10))
    group = Group("g", lambda name: next(ids), max_size=10)
    for member_id, instance in (("", "a"), ("", "b"), ("m0", "a")):
        group.join(Later(), join_request(member_id, instance), Client("c", "h"), 0.0)
    read = Group("g", lambda name: next(ids), max_size=10)
    read.load(group.record(), 0.0)
    return read


async def test_a_sync_whose_client_hung_up_while_the_group_was_read_does_not_count_as_waiting(
    completing: Group,
) -> None:
    groups = GroupsBeingRead(completing)
    handlers = GroupHandlers(cast(Groups, groups), cast(Purgatory, None), NewGroups())
    gone = next(member for member in completing.members if member.member_id != completing.leader)
    request = SyncGroupRequest("g", completing.generation, gone.member_id, None, "consumer", "range", [])
    incoming = cast(IncomingRequest, SimpleNamespace(message=request, client_id="c", is_long=False))
    wait = handlers.sync(incoming, cast(Peer, "connection"))
    wait.abandon()
    groups.is_read.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert gone.syncing is None, "its session would not end before the rebalance timeout"
    completing.tick(11.0)
    assert completing.members.get(gone.member_id) is None


async def test_member_that_tells_too_much_of_itself_is_refused_with_a_reason(completing: Group) -> None:
    handlers = GroupHandlers(cast(Groups, GroupsBeingRead(completing)), cast(Purgatory, None), NewGroups())
    protocols = [GroupProtocol("range", bytes(900 * 1024))]
    request = JoinGroupRequest("g", 10_000, 300_000, "", None, "consumer", protocols)
    incoming = cast(IncomingRequest, SimpleNamespace(message=request, client_id="c"))
    with pytest.raises(InvalidRequest, match="allowed are 65536"):
        handlers.join(incoming, cast(Peer, SimpleNamespace(ip="127.0.0.1")))
