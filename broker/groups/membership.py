"""One group: joins, syncs, heartbeats, leaves and time go in, answers and writes come out. Pure; time is an argument.

Kafka's classic protocol. A generation begins when all members have joined (or those that have not are out of time), one of them
assigns, and the others ask for their part::

    EMPTY ──join──► PREPARING ──all have joined──► COMPLETING ──the leader has assigned──► STABLE
                        ▲                               │                                    │
                        └───────── somebody joins with news, leaves, or is not heard of ─────┘

What begins a generation is written before anybody is told of it, and what was assigned before anybody gets it: a coordinator
that has been replaced cannot write any more, so whatever it still believes, no member hears it.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from ottla.broker.groups.members import Member, Members, Ticket, protocols_of, wants
from ottla.wire.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NonEmptyGroup,
    OttlaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.wire.groups import (
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.wire.messages import Message
from ottla.zk.znodes.consumers import GroupZnode

SIMPLE = -1
"""The generation of somebody who commits and is no member."""

AWAY_LOOK_S = 1.0
"""How often it is looked whether any static member of those that are all away has come back, at most."""


class GroupState(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Client(NamedTuple):
    """Who asks, as told."""

    client_id: str
    host: str


class Answer(NamedTuple):
    """Tell this to whoever waits."""

    ticket: Ticket
    response: Message


class Write(NamedTuple):
    """Write this, and only then give the answers."""

    record: GroupZnode
    then: tuple[Answer, ...]


Effect = Answer | Write


class Group:
    """Each method gives what is to be done, in order. ``make_id`` gives a member id that nobody has had."""

    def __init__(
        self, group_id: str, make_id: Callable[[str], str], *, max_size: int, initial_delay_s: float = 0.0
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members = Members(group_id, make_id, max_size)
        self.why = ""
        """What the present rebalance is for, or the last one was."""
        self._initial_delay_s = initial_delay_s
        self._until = 0.0
        """PREPARING: until when others are waited for. COMPLETING: until when the leader is."""
        self._not_before = 0.0
        """PREPARING out of EMPTY: how long at least, for more to come."""
        self._effects: list[Effect] = []

    # --- as it stands in ZooKeeper ---------------------------------------------------------------------------------------

    def load(self, record: GroupZnode, now: float) -> None:
        """Go on where another coordinator was: nobody need join again."""
        self.generation, self.protocol_type = record.generation, record.protocol_type
        self.protocol, self.leader = record.protocol, record.leader
        self.members.load(record.members, now)
        if self.members:
            self.state = GroupState.STABLE if record.assigned else GroupState.COMPLETING
            self._until = now + self.members.rebalance_timeout_s()

    def record(self) -> GroupZnode:
        assigned = self.state is GroupState.STABLE
        members = self.members.records()
        return GroupZnode(self.generation, self.protocol_type, self.protocol, self.leader, assigned, members)

    # --- what members ask ------------------------------------------------------------------------------------------------

    def join(self, ticket: Ticket, request: JoinGroupRequest, client: Client, now: float) -> list[Effect]:
        try:
            self.members.check_protocols(request, self.protocol_type)
            member = self.members.find_or_add(request, client.client_id, now)
        except MemberIdRequired as error:
            promised = self.members.promise_id(client.client_id, now + request.session_timeout_ms / 1000)
            self._answer(ticket, JoinGroupResponse(error.code, str(error), member_id=promised))
            return self._done()
        except OttlaError as error:
            self._answer(ticket, JoinGroupResponse(error.code, str(error), member_id=request.member_id))
            return self._done()
        came_back = member.is_static and not request.member_id and bool(member.protocols)
        if came_back:
            self._come_back(member)
        elif member.joining is not None:
            self._answer(member.joining, _join_failed(RebalanceInProgress("it has joined again since"), member))
        protocols = protocols_of(request.protocols)
        news = wants(protocols) != wants(member.protocols) if came_back else protocols != member.protocols
        member.update(request, *client)
        member.heard(now)
        self.protocol_type = request.protocol_type
        if self.state is GroupState.STABLE and came_back and not news:
            self._write(Answer(ticket, self._joined(member, skip=member.member_id == self.leader)))
        elif (self.state is GroupState.COMPLETING and not news and not came_back) or (
            self.state is GroupState.STABLE and not news and member.member_id != self.leader
        ):
            self._answer(ticket, self._joined(member))  # it has not heard the answer to the same question before
        else:
            member.joining = ticket
            self._prepare(f"{member.name} {'joined' if news else 'asked for it'}", now)
            self._complete_if_all_joined(now)
        return self._done()

    def sync(self, ticket: Ticket, request: SyncGroupRequest, now: float) -> list[Effect]:
        try:
            member = self.members.known(request.member_id, request.group_instance_id)
            self._check_generation(request.generation_id)
            if (request.protocol_type or self.protocol_type, request.protocol_name or self.protocol) != (
                self.protocol_type,
                self.protocol,
            ):
                raise InconsistentGroupProtocol(f"the group's protocol is {self.protocol_type} {self.protocol}")
            if self.state is GroupState.PREPARING:
                raise RebalanceInProgress
        except OttlaError as error:
            self._answer(ticket, _sync_failed(error))
            return self._done()
        member.heard(now)
        if self.state is GroupState.STABLE:
            self._answer(ticket, self._synced(member))
            return self._done()
        if member.syncing is not None:
            self._answer(member.syncing, _sync_failed(RebalanceInProgress("it has asked again since")))
        member.syncing = ticket
        if member.member_id == self.leader:
            self._assign({one.member_id: one.assignment for one in request.assignments}, now)
        return self._done()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: float) -> OttlaError | None:
        """What the member is told: that all is well, or why it must join again."""
        error = self.why_join_again(member_id, instance_id, generation)
        member = self.members.get(member_id)
        if member is not None and (error is None or isinstance(error, RebalanceInProgress)):
            member.heard(now)
        return error

    def why_join_again(self, member_id: str, instance_id: str | None, generation: int) -> OttlaError | None:
        """As ``heartbeat``, for one that was heard of before and waits for news."""
        try:
            self.members.known(member_id, instance_id)
            self._check_generation(generation)
        except OttlaError as error:
            return error
        return RebalanceInProgress(self.why) if self.state is GroupState.PREPARING else None

    def leave(self, leaving: list[LeavingMember], now: float) -> tuple[list[LeftMember], list[Effect]]:
        """What became of each, and what is to be done."""
        left = []
        for one in leaving:
            try:
                member = self.members.named(one.member_id, one.group_instance_id)
            except OttlaError as error:
                left.append(LeftMember(error.code, str(error), one.member_id, one.group_instance_id))
                continue
            self._remove(member, f"{member.name} left" + (f" ({one.reason[:100]})" if one.reason else ""), now)
            left.append(LeftMember(0, "", one.member_id, one.group_instance_id))
        self._complete_if_all_joined(now)
        return left, self._done()

    def forget(self, ticket: Ticket) -> None:
        """Whoever waited has gone: that it has joined or asked counts no more."""
        for member in self.members:
            if member.joining is ticket:
                member.joining = None
            if member.syncing is ticket:
                member.syncing = None

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now: float) -> None:
        """Raise if offsets may not be committed so: by an old generation, or by nobody while there are members."""
        if generation <= SIMPLE and not self.members:
            return  # whoever has not joined; a client may name itself all the same (librdkafka with group.protocol=consumer)
        if generation == SIMPLE and not member_id:
            count = f"{len(self.members)} member" + ("s" if len(self.members) > 1 else "")
            raise NonEmptyGroup(f"group {self.group_id!r} has {count}: until they have left, only they commit")
        member = self.members.known(member_id, instance_id)
        self._check_generation(generation)
        if self.state is GroupState.COMPLETING:
            raise RebalanceInProgress("the group is about to begin its next generation")
        member.heard(now)

    # --- time ------------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do, if nothing happens before."""
        deadlines = self.members.deadlines()
        if self.state is GroupState.PREPARING:
            deadlines.append(self._not_before if self._not_before and self.members.all_joined else self._until)
        elif self.state is GroupState.COMPLETING:
            deadlines.append(self._until)
        return min(deadlines, default=None)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: who is not heard of is out."""
        self.members.forget_promises(now)
        for member in self.members.expired(now):
            self._remove(member, f"{member.name} was not heard of for {member.session_timeout_ms} ms", now)
        if self.state is GroupState.COMPLETING and now >= self._until:
            # Whoever has not asked for its part by now does not take part: its place is needed.
            for member in [member for member in self.members if member.syncing is None]:
                self._remove(member, f"{member.name} did not ask for its assignment in time", now)
            self._prepare("the leader did not assign in time", now)
        self._complete_if_all_joined(now)
        return self._done()

    def give_up(self, why: OttlaError) -> list[Effect]:
        """Another broker coordinates this group by now: whoever waits here is told so."""
        for member in self.members:
            if member.joining is not None:
                self._answer(member.joining, _join_failed(why, member))
            if member.syncing is not None:
                self._answer(member.syncing, _sync_failed(why))
            member.joining = member.syncing = None
        return self._done()

    # --- generations -----------------------------------------------------------------------------------------------------

    def _prepare(self, why: str, now: float) -> None:
        """Members must join again, for there is to be another generation."""
        if self.state is GroupState.PREPARING:
            return
        for member in self.members:
            if member.syncing is not None:
                self._answer(member.syncing, _sync_failed(RebalanceInProgress(why)))
                member.syncing = None
        self.why = why
        self._not_before = (
            now + self._initial_delay_s if self.state is GroupState.EMPTY and self._initial_delay_s else 0.0
        )
        self._until = now + self.members.rebalance_timeout_s()
        self.state = GroupState.PREPARING

    def _complete_if_all_joined(self, now: float) -> None:
        if self.state is not GroupState.PREPARING:
            return
        if now < self._until and (not self.members.all_joined or now < self._not_before):
            return
        for member in [member for member in self.members if member.joining is None and not member.is_static]:
            self.members.remove(member)
        joined = [member for member in self.members if member.joining is not None]
        if self.members and not joined:
            # Static members are away: their places are kept until their sessions end.
            self._until = now + max(self.members.rebalance_timeout_s(), AWAY_LOOK_S)
            return
        self.generation += 1
        self._not_before = 0.0
        if not joined:
            self.state, self.protocol, self.leader = GroupState.EMPTY, "", ""
            self._write()
            return
        self.protocol = self.members.choose_protocol()
        leader = self.members.get(self.leader)
        if leader is None or leader.joining is None:
            self.leader = joined[0].member_id
        self.state = GroupState.COMPLETING
        self._until = now + self.members.rebalance_timeout_s()
        answers = []
        for member in joined:
            answers.append(Answer(member.joining, self._joined(member)))
            member.joining = None
            member.heard(now)
        self._write(*answers)

    def _assign(self, assignments: dict[str, bytes], now: float) -> None:
        self.state = GroupState.STABLE
        answers = []
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                answers.append(Answer(member.syncing, self._synced(member)))
                member.syncing = None
                member.heard(now)
        self._write(*answers)

    def _come_back(self, member: Member) -> None:
        """A static member was away: it goes on under a new id, and whoever had the old one is fenced."""
        was_leader = member.member_id == self.leader
        for fenced in self.members.rename(member):
            self._effects.append(Answer(*fenced))
        if was_leader:
            self.leader = member.member_id

    def _remove(self, member: Member, why: str, now: float) -> None:
        if member.joining is not None:
            self._answer(member.joining, _join_failed(UnknownMemberId(why), member))
        if member.syncing is not None:
            self._answer(member.syncing, _sync_failed(UnknownMemberId(why)))
        self.members.remove(member)
        self._prepare(why, now)

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(f"group {self.group_id!r} is in generation {self.generation}, not {generation}")

    # --- answers ---------------------------------------------------------------------------------------------------------

    def _joined(self, member: Member, *, skip: bool = False) -> JoinGroupResponse:
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == self.leader:
            members = tuple(
                JoinedMember(one.member_id, one.instance_id, one.metadata_of(self.protocol)) for one in self.members
            )
        return JoinGroupResponse(
            0, "", self.generation, self.protocol_type, self.protocol, self.leader, member.member_id, members, skip
        )

    def _synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(0, "", self.protocol_type, self.protocol, member.assignment)

    def _answer(self, ticket: Ticket, response: Message) -> None:
        self._effects.append(Answer(ticket, response))

    def _write(self, *then: Answer) -> None:
        self._effects.append(Write(self.record(), then))

    def _done(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _join_failed(error: OttlaError, member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(error.code, str(error), member_id=member.member_id)


def _sync_failed(error: OttlaError) -> SyncGroupResponse:
    return SyncGroupResponse(error.code, str(error))
