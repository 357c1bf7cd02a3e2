"""One group whose coordinator assigns (KIP-848): heartbeats and time go in, answers and writes come out. Pure: time is given.

The group has an epoch. It moves when a member comes, goes, or wants something else, or when topics do; with it goes a *target*:
who is to have what. (Kafka's assignment epoch is the same number here: the target is decided with the epoch.) Each member moves
there by itself, from heartbeat to heartbeat, and in its own epoch until it has arrived::

                    the target has less than it has                 the target has what others hold
    UNREVOKED ◄───────────────────────────────────── STABLE ─────────────────────────────────────► UNRELEASED
     (its epoch stays)                                 ▲ ▲                                    (the group's epoch)
         └── it owns no more of that: the group's epoch ┘ └── they have let go, or are out ────────────┘

Invariant [I30]: no partition is given to a member while another one has it, or was told to let go of it and has not confirmed:
by a heartbeat whose owned partitions are without it, by joining anew, by leaving, or by being out.

All of it is written before anybody is told, targets and what is being revoked too, so that the next coordinator goes on in the
middle of it. A heartbeat that changes nothing writes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ottla.broker.groups.consumer_states import ConsumerGroupState
from ottla.broker.groups.consumers import (
    AWAY,
    NONE,
    Consumer,
    Consumers,
    ConsumerState,
    Partitions,
    by_topic,
    check_heartbeat,
    is_whole,
    partitions_of,
)
from ottla.broker.groups.limits import ConsumerGroupTimes
from ottla.broker.groups.members import METADATA_BYTES_MAX, Ticket
from ottla.broker.groups.membership import SIMPLE, Answer, Client, Effect, Write
from ottla.broker.groups.server_assignors import ASSIGNORS, UNIFORM, Sharing, Wanted, still_wanted, takes_long
from ottla.broker.groups.subscribed_patterns import SubscribedPatterns
from ottla.broker.groups.topic_patterns import Matched
from ottla.wire.consumer_groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.consumer_protocol import PROTOCOL_TYPE
from ottla.wire.errors import NonEmptyGroup, OttlaError, StaleMemberEpoch
from ottla.wire.groups import LeaveGroupResponse, LeavingMember, LeftMember
from ottla.zk.znodes.consumer_members import TopicIdPartition
from ottla.zk.znodes.consumers import CONSUMER_KIND, GroupZnode


class TopicShape(NamedTuple):
    topic_id: str
    partitions: int


class Topics(Protocol):
    """The topics of the cluster, as they are now."""

    def shape_of(self, name: str) -> TopicShape | None: ...

    def names(self) -> Iterable[str]: ...


class ConsumerGroup:
    """Each method gives what is to be done, in order. ``make_id`` gives a member id that nobody has had."""

    def __init__(
        self,
        group_id: str,
        make_id: Callable[[str], str],
        topics: Topics,
        *,
        max_size: int,
        times: ConsumerGroupTimes,
        max_metadata_bytes: int = METADATA_BYTES_MAX,
    ) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members = Consumers(group_id, make_id, max_size, max_metadata_bytes)
        self.why = ""
        """What the present epoch began with."""
        self._topics = topics
        self.times = times
        self._assignor = UNIFORM
        self._shared: Wanted | None = None
        """What the present target is for, if that is known."""
        self.to_share: Sharing | None = None
        """What takes long to be shared: ``partitions_shared`` is to be told, and until then members keep what they have."""
        self._names: dict[str, str] = {}
        """Of all topics that a member wants, has, or has not let go of, by their ids."""
        self._only: frozenset[str] | None = None
        """The topics that may be shared, if not all may."""
        self.patterns = SubscribedPatterns()
        self._news = False
        """Whether something is to be written."""

    # --- as it stands in ZooKeeper ---------------------------------------------------------------------------------------

    def load(self, record: GroupZnode, now: float) -> None:
        """Go on where another coordinator was, or where a group of the other kind has ended."""
        self.epoch, self._names = record.generation, dict(record.topic_names)
        if record.kind == CONSUMER_KIND:
            self._assignor = record.protocol if record.protocol in ASSIGNORS else UNIFORM
            self.members.load(record.consumers)
        for member in self.members:
            self._heard(member, now)
            member.revoking_until = now + member.rebalance_timeout_ms / 1000

    def record(self) -> GroupZnode:
        members = self.members.records()
        names = tuple(sorted(self._names.items()))
        return GroupZnode(
            self.epoch, PROTOCOL_TYPE, self._assignor, assigned=bool(members),
            kind=CONSUMER_KIND, consumers=members, topic_names=names,
        )  # fmt: skip

    def topic_name(self, topic_id: str) -> str:
        return self._names.get(topic_id, "")

    # --- what is told of it ----------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        return self.epoch

    @property
    def assignor(self) -> str:
        return self._assignor

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        stable = all(member.state(self.epoch) is ConsumerState.STABLE for member in self.members)
        return ConsumerGroupState.STABLE if stable else ConsumerGroupState.RECONCILING

    # --- what members ask ------------------------------------------------------------------------------------------------

    def heartbeat(
        self, ticket: Ticket, request: ConsumerGroupHeartbeatRequest, client: Client, now: float
    ) -> list[Effect]:
        try:
            check_heartbeat(request)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                answer = self._leave(request)
            else:
                answer = self._stay(request, client, now)
        except OttlaError as error:
            return [Answer(ticket, ConsumerGroupHeartbeatResponse(error.code, str(error)))]
        return self._done(Answer(ticket, answer))

    def _stay(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now: float
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises before anything is changed, or not at all."""
        owned = partitions_of(request.owned)
        joins = request.member_epoch == JOIN_EPOCH
        member = self.members.find_to_join(request) if joins else None
        if not joins:
            member = self.members.known(request.member_id, request.instance_id)
            member.check_epoch(request.member_epoch, owned)
        self.members.check_size(request, client.client_id, member)
        self.patterns.check(request, member)
        is_new = member is None
        if member is None:
            member = self.members.add(request)
        before = member.assigned
        if joins:
            self._let_in(member, request, client)
        self._heard(member, now)
        if member.subscribe(request):
            self._news = True
        if is_new:
            self._begin_epoch(f"member {member.name} joined")
        elif self._wants_news(request):
            self._share_anew(f"member {member.name} wants something else")
        self._reconcile(member, owned, now)
        tell = joins or is_whole(request) or member.assigned != before
        return ConsumerGroupHeartbeatResponse(
            0, "", member.member_id, member.epoch, self.times.heartbeat_interval_ms,
            by_topic(member.assigned) if tell else None,
        )  # fmt: skip

    def _let_in(self, member: Consumer, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        """Who joins has nothing: whatever it had to let go of is free, and what is its own it will be told."""
        if request.member_id != member.member_id and member.epoch == AWAY:
            self.members.rename(member, request.member_id)
        self.members.hold(member, member.assigned, NONE)
        member.epoch = member.previous_epoch = JOIN_EPOCH
        member.client_id, member.client_host = client
        self._news = True

    def _heard(self, member: Consumer, now: float) -> None:
        member.deadline = now + self.times.session_timeout_ms / 1000

    @staticmethod
    def _wants_news(request: ConsumerGroupHeartbeatRequest) -> bool:
        return request.topics is not None or request.pattern is not None or request.assignor is not None

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = self.members.known(request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            # It will be back: its place is kept until its session ends. It has let go of all, and nobody else gets what it
            # is to have again; for the rest nobody need wait.
            self.members.hold(member, member.assigned & member.target, NONE)
            member.epoch = member.previous_epoch = AWAY
            self._news = True
        else:
            self.members.remove(member)
            self._begin_epoch(f"member {member.name} left")
        return ConsumerGroupHeartbeatResponse(0, "", request.member_id, request.member_epoch)

    def remove(self, ticket: Ticket, leaving: Iterable[LeavingMember]) -> list[Effect]:
        """Somebody, an admin as a rule, says who is out. Who hears that it is, joins again."""
        left, why = [], ""
        for one in leaving:
            try:
                member = self.members.named(one.member_id, one.group_instance_id)
            except OttlaError as error:
                left.append(LeftMember(error.code, str(error), one.member_id, one.group_instance_id))
                continue
            self.members.remove(member)
            why = f"member {member.name} was removed" + (f" ({one.reason[:100]})" if one.reason else "")
            left.append(LeftMember(0, "", one.member_id, one.group_instance_id))
        if why:
            self._begin_epoch(why)
        return self._done(Answer(ticket, LeaveGroupResponse(0, "", tuple(left))))

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> None:
        """Raise if offsets may not be committed so: by an old epoch, or by nobody while there are members."""
        if epoch <= SIMPLE and not self.members:
            return  # whoever has not joined, named or not
        if epoch <= SIMPLE and not member_id:
            count = f"{len(self.members)} member" + ("s" if len(self.members) > 1 else "")
            raise NonEmptyGroup(f"group {self.group_id!r} has {count}: until they have left, only they commit")
        self._check_current(member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise if a member asks for offsets that has not heard yet of the epoch that it is in."""
        if member_id is not None or epoch >= 0:
            self._check_current(member_id or "", epoch)

    def _check_current(self, member_id: str, epoch: int) -> None:
        member = self.members.known(member_id, None)
        if member.epoch != epoch or epoch == AWAY:
            raise StaleMemberEpoch(f"member {member_id} is in epoch {member.epoch}, not {epoch}")

    # --- time, topics ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do, if nothing happens before."""
        deadlines = [member.deadline for member in self.members]
        deadlines += [member.revoking_until for member in self.members if member.revoking]
        return min(deadlines, default=None)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: who is not heard of is out, and who does not let go."""
        why = ""
        for member in self.members:
            if member.deadline <= now:
                why = f"member {member.name} was not heard of for {self.times.session_timeout_ms} ms"
            elif member.revoking and member.revoking_until <= now:
                why = f"member {member.name} kept what was revoked for {member.rebalance_timeout_ms} ms"
            else:
                continue
            self.members.remove(member)
        if why:
            self._begin_epoch(why)
        return self._done()

    def topics_changed(self) -> list[Effect]:
        """Topics may have come, gone or grown: whether that is so for this group is looked at here."""
        if self.members:
            self._share_anew("its topics have changed")
        return self._done()

    def keep_to_its_topics(self) -> None:
        """What its members want by now is more than can be written: it goes on with the topics that it has."""
        self._only = frozenset(self._names)

    # --- epochs ----------------------------------------------------------------------------------------------------------

    def _begin_epoch(self, why: str) -> None:
        """The group is another one: so is who is to have what."""
        self._set_target(self._share(self._wanted(), self._preferred_assignor()), why)

    def _share_anew(self, why: str) -> None:
        """Perhaps it is another one."""
        wanted, assignor = self._wanted(), self._preferred_assignor()
        if (wanted, assignor) == (self._shared, self._assignor):
            return
        another_way = assignor != self._assignor
        target = self._share(wanted, assignor)
        if another_way or any(member.target != target[member.member_id] for member in self.members):
            self._set_target(target, why)

    def _set_target(self, target: dict[str, Partitions], why: str) -> None:
        self.epoch += 1
        self.why = why
        for member in self.members:
            member.target = target[member.member_id]
            if member.epoch == AWAY:  # it has nothing: others need not wait for what it is not to have again
                self.members.hold(member, member.assigned & member.target, NONE)
        self._news = True

    def _share(self, wanted: Wanted, assignor: str) -> dict[str, Partitions]:
        self._shared, self._assignor, self.to_share = wanted, assignor, None
        current = {member.member_id: member.target for member in self.members}
        if not takes_long(wanted):
            return ASSIGNORS[assignor](wanted, current)
        self.to_share = Sharing(wanted, assignor, still_wanted(wanted, current))
        return dict(self.to_share.current)

    def partitions_shared(self, sharing: Sharing, target: dict[str, Partitions]) -> list[Effect]:
        """What became of ``to_share``, if that still is what is to be shared."""
        if self.to_share is sharing:
            self.to_share = None
            if any(member.target != target[member.member_id] for member in self.members):
                self._set_target(target, "its partitions are shared")
        return self._done()

    def _preferred_assignor(self) -> str:
        """That of most members; where none has a wish, the default."""
        votes = Counter(member.assignor for member in self.members if member.assignor is not None)
        return min(votes, key=lambda name: (-votes[name], name), default=UNIFORM)

    def _wanted(self) -> Wanted:
        known = frozenset(self._topics.names()) if any(one.pattern is not None for one in self.members) else frozenset()
        self.patterns.look(known, list(self.members), self._names)
        partitions: dict[str, int] = {}
        found: dict[str, str] = {}
        by_wish: dict[tuple[tuple[str, ...], str | None], frozenset[str]] = {}
        for wish in {(member.topics, member.pattern) for member in self.members}:  # most have the same
            names = {*wish[0], *(self.patterns.get(wish[1]).names if wish[1] is not None else ())}
            shapes = [
                (name, shape)
                for name in names
                if (shape := self._topics.shape_of(name)) is not None
                and (self._only is None or shape.topic_id in self._only)
            ]
            by_wish[wish] = frozenset(shape.topic_id for _, shape in shapes)
            partitions |= {shape.topic_id: shape.partitions for _, shape in shapes}
            found |= {shape.topic_id: name for name, shape in shapes}
        members = {member.member_id: by_wish[member.topics, member.pattern] for member in self.members}
        held = {one[0] for member in self.members for some in (member.assigned, member.revoking) for one in some}
        self._names = {topic_id: self._names[topic_id] for topic_id in held if topic_id in self._names} | found
        return Wanted(partitions, members, {member.member_id: member.name for member in self.members})

    def patterns_matched(self, found: Iterable[Matched]) -> list[Effect]:
        """What ``patterns.slow`` match."""
        self.patterns.take(found)
        return self.topics_changed()

    # --- members on their way to the target ----------------------------------------------------------------------------------

    def _reconcile(self, member: Consumer, owned: Partitions | None, now: float) -> None:
        """Take a member as far as it can go. ``owned``: all that it says it has, if it says so."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            self._hold(member, member.assigned, NONE)
        kept, revoked = member.assigned & member.target, member.assigned - member.target
        if revoked and (owned is None or owned & revoked):
            self._hold(member, kept, revoked)
            member.revoking_until = now + member.rebalance_timeout_ms / 1000
            return
        self._hold(member, kept, NONE)
        self._hold(member, kept | {one for one in member.target - kept if self._is_free(one)}, NONE)
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
            self._news = True

    def _is_free(self, partition: TopicIdPartition) -> bool:
        """Invariant [I30]: what anybody else holds is waited for."""
        return self.members.holder(partition) is None

    def _hold(self, member: Consumer, assigned: Partitions, revoking: Partitions) -> None:
        if (member.assigned, member.revoking) != (assigned, revoking):
            self.members.hold(member, assigned, revoking)
            self._news = True

    def _done(self, *answers: Answer) -> list[Effect]:
        if not self._news:
            return list(answers)
        self._news = False
        return [Write(self.record(), answers)]

    def forget(self, ticket: Ticket) -> None:
        """Nobody waits here for anything but a write."""

    def give_up(self, why: OttlaError) -> list[Effect]:
        """As ``forget``."""
        return []
