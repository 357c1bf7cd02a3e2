"""Being a member of a group: FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import time
from functools import partial

from msgspec import structs

from ottla.broker.api.group_work import GroupWork
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.limits import check_group_id
from ottla.broker.groups.membership import Client, Group
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.purgatory import Purgatory
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest, InvalidSessionTimeout, OttlaError, UnknownMemberId
from ottla.wire.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    SyncGroupRequest,
)

KEYS_MAX = 1000
PROTOCOL_TYPE_MAX = 255
PROTOCOLS_MAX = 50
"""Of one member: what all members have in common is looked for at each join."""
HEARTBEAT_MAX_S = 60.0


class GroupHandlers:
    """Whatever is asked of a group that is at hand is decided at once; one that is not is read first."""

    def __init__(self, groups: Groups, heartbeats: Purgatory, new_groups: NewGroups) -> None:
        self._groups = groups
        self._heartbeats = heartbeats
        self._work = GroupWork(groups, new_groups)

    def find_coordinator(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, FindCoordinatorRequest)
        if len(request.groups) > KEYS_MAX:
            raise InvalidRequest(f"{len(request.groups)} groups in one request; at most {KEYS_MAX}")
        return Reply(FindCoordinatorResponse([self._find(group, connection.listener) for group in request.groups]))

    def _find(self, group_id: str, listener: str) -> Coordinator:
        try:
            found = self._groups.coordinator_of(group_id, listener)
        except OttlaError as error:
            return Coordinator(error.code, str(error), group_id)
        return Coordinator(0, "", group_id, found.id, found.host, found.port)

    def join(self, incoming: IncomingRequest, connection: Peer) -> Later:
        request = incoming.message
        assert isinstance(request, JoinGroupRequest)
        self._check_join(request)
        client = Client(incoming.client_id, connection.ip)
        wait = Later()

        def join(one: Coordinated) -> None:
            if wait.abandoned:
                return  # it has hung up while the group was read
            group = self._groups.classic(one)
            wait.on_abandoned = partial(group.forget, wait)
            self._groups.apply(one, group.join(wait, request, client, time.monotonic()))

        if request.member_id:  # of whoever was a member, the group was deleted meanwhile
            return self._work.on(request.group_id, wait, join, if_gone=Reply(None, error=_gone(request.group_id)))
        return self._work.on(request.group_id, wait, join, maker=connection)

    def _check_join(self, request: JoinGroupRequest) -> None:
        check_group_id(request.group_id)
        limits = self._groups.limits
        low, high = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeout(f"session.timeout.ms={request.session_timeout_ms}; allowed are {low} to {high}")
        if not 0 <= request.rebalance_timeout_ms <= 2**31 - 1:
            raise InvalidRequest(f"rebalance timeout of {request.rebalance_timeout_ms} ms")
        if len(request.protocols) > PROTOCOLS_MAX:
            raise InvalidRequest(f"a member of {len(request.protocols)} protocols; allowed are {PROTOCOLS_MAX}")
        if len(request.protocol_type) > PROTOCOL_TYPE_MAX:
            raise InvalidRequest(
                f"a protocol type of {len(request.protocol_type)} letters; allowed are {PROTOCOL_TYPE_MAX}"
            )
        names = [request.protocol_type, request.member_id, request.group_instance_id or ""]
        size = sum(len(one.name) + len(one.metadata) for one in request.protocols) + sum(map(len, names))
        if size > limits.metadata_max_bytes:
            raise InvalidRequest(f"a member that tells {size} bytes of itself; allowed are {limits.metadata_max_bytes}")

    def sync(self, incoming: IncomingRequest, connection: Peer) -> Later:
        request = incoming.message
        assert isinstance(request, SyncGroupRequest)
        limit = self._groups.limits.metadata_max_bytes
        if any(len(one.assignment) > limit for one in request.assignments):
            raise InvalidRequest(f"an assignment of more than {limit} bytes")
        wait = Later()
        if incoming.is_long:  # the group has the assignments; the request is kept until it is answered
            incoming.message = structs.replace(request, assignments=[])

        def sync(one: Coordinated) -> None:
            if wait.abandoned:
                return  # as above: nobody waits, so nobody is to count as waiting
            group = _classic(one, request.member_id)
            wait.on_abandoned = partial(group.forget, wait)
            self._groups.apply(one, group.sync(wait, request, time.monotonic()))

        return self._work.on(request.group_id, wait, sync, if_gone=Reply(None, error=_gone(request.group_id)))

    def heartbeat(self, incoming: IncomingRequest, connection: Peer) -> Later | Reply:
        request = incoming.message
        assert isinstance(request, HeartbeatRequest)
        who = request.member_id, request.group_instance_id, request.generation_id
        at_hand = self._groups.loaded(request.group_id)
        if at_hand is not None:
            return self._heard(at_hand, request)
        wait = Later()

        def heartbeat(one: Coordinated) -> None:
            wait.give(_alive(_classic(one, request.member_id).heartbeat(*who, time.monotonic())))

        return self._work.on(request.group_id, wait, heartbeat, if_gone=_alive(_gone(request.group_id)))

    def _heard(self, one: Coordinated, request: HeartbeatRequest) -> Later | Reply:
        who = request.member_id, request.group_instance_id, request.generation_id
        error = _classic(one, request.member_id).heartbeat(*who, time.monotonic())
        wait_s = min(request.max_wait_ms / 1000, HEARTBEAT_MAX_S)
        if error is not None or wait_s <= 0:
            return _alive(error)

        def must_join_again() -> Reply | None:
            if one.over:
                self._groups.check_mine(request.group_id)
                return _alive(None)  # it went and came back: the member will ask again
            why = _classic(one, request.member_id).why_join_again(*who)
            return _alive(why) if why is not None else None

        return self._heartbeats.wait(must_join_again, lambda: _alive(None), [request.group_id], wait_s)

    def leave(self, incoming: IncomingRequest, connection: Peer) -> Later:
        request = incoming.message
        assert isinstance(request, LeaveGroupRequest)
        wait = Later()

        def leave(one: Coordinated) -> None:
            if isinstance(one.group, ConsumerGroup):
                self._groups.apply(one, one.group.remove(wait, request.members))
                return
            left, effects = one.group.leave(request.members, time.monotonic())
            self._groups.apply(one, effects)
            wait.give(Reply(LeaveGroupResponse(0, "", tuple(left))))

        why = _gone(request.group_id)
        left = [LeftMember(why.code, str(why), one.member_id, one.group_instance_id) for one in request.members]
        return self._work.on(request.group_id, wait, leave, if_gone=Reply(LeaveGroupResponse(0, "", tuple(left))))


def _classic(one: Coordinated, member_id: str) -> Group:
    """The group, if its members assign; in any other it has no such member."""
    if not isinstance(one.group, Group):
        raise UnknownMemberId(
            f"the coordinator assigns in group {one.group.group_id!r}, of which {member_id[:100]!r} is none"
        )
    return one.group


def _gone(group_id: str) -> UnknownMemberId:
    """A group that does not exist has no such member: Kafka answers the same, upon which its clients join anew."""
    return UnknownMemberId(f"group {group_id!r} does not exist, and has no members")


def _alive(error: OttlaError | None) -> Reply:
    return Reply(HeartbeatResponse(error.code, str(error)) if error is not None else HeartbeatResponse(0, ""))
