"""The members of a group: who they are, what they understand, and what they have in common. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ottla.wire.consumer_protocol import decode_subscription
from ottla.wire.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    MemberIdRequired,
    UnknownMemberId,
)
from ottla.wire.groups import GroupProtocol, JoinGroupRequest, JoinGroupResponse, SyncGroupResponse
from ottla.wire.messages import Message
from ottla.zk.znodes.consumers import MemberRecord
from ottla.zk.znodes.json_fields import encode_json

Ticket = object
"""Whoever waits for an answer; only handed through."""

PROMISED_IDS_MAX = 1000
"""Member ids that were given and not used yet. The oldest is forgotten for the next."""


@dataclass
class Member:
    """One member. It waits for at most one answer of each kind."""

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    protocols: tuple[tuple[str, bytes], ...] = ()
    assignment: bytes = b""
    joining: Ticket | None = None
    """Its JoinGroup that waits for the others,"""
    syncing: Ticket | None = None
    """and its SyncGroup that waits for the leader."""
    size: int = field(default=0, compare=False)
    """How many bytes it tells of itself (``told_size``)."""
    deadline: float = field(default=0.0, compare=False)
    """When its session ends, unless it is heard of before."""

    @property
    def name(self) -> str:
        """For people."""
        return f"member {self.instance_id or self.member_id}"

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def waits(self) -> bool:
        """Whether the coordinator owes it an answer: then it cannot be expected to say anything."""
        return self.joining is not None or self.syncing is not None

    def metadata_of(self, protocol: str) -> bytes:
        return dict(self.protocols).get(protocol, b"")

    def heard(self, now: float) -> None:
        self.deadline = now + self.session_timeout_ms / 1000

    def update(self, request: JoinGroupRequest, client_id: str, client_host: str) -> None:
        self.session_timeout_ms, self.rebalance_timeout_ms = request.session_timeout_ms, request.rebalance_timeout_ms
        self.protocols = protocols_of(request.protocols)
        self.client_id, self.client_host = client_id, client_host
        self.size = told_size(request, client_id)


METADATA_BYTES_MAX = 450_000
"""What all members of a group tell of themselves, metadata, names and ids: as text, with what they are assigned, it must fit
into a znode of a megabyte."""


class Members:
    """All of one group, in the order in which they came."""

    def __init__(
        self, group_id: str, make_id: Callable[[str], str], max_size: int, max_metadata_bytes: int = METADATA_BYTES_MAX
    ) -> None:
        """``max_metadata_bytes``: what all members together may tell of themselves, so that a group fits into its znode."""
        self._group_id = group_id
        self._make_id = make_id
        self.max_size = max_size
        self._max_metadata_bytes = max_metadata_bytes
        self._members: dict[str, Member] = {}
        self._instances: dict[str, Member] = {}
        self._promised: dict[str, float] = {}

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    def load(self, records: Iterable[MemberRecord], now: float) -> None:
        for known in records:
            member = Member(
                known.member_id, known.instance_id, known.session_timeout_ms, known.rebalance_timeout_ms,
                known.client_id, known.client_host, known.protocols, known.assignment,
            )  # fmt: skip
            member.size = _size_of(known.protocols, known.client_id, known.member_id, known.instance_id)
            member.heard(now)
            self._add(member)

    def records(self) -> tuple[MemberRecord, ...]:
        return tuple(
            MemberRecord(
                member.member_id, member.instance_id, member.client_id, member.client_host, member.session_timeout_ms,
                member.rebalance_timeout_ms, member.protocols, member.assignment,
            )
            for member in self
        )  # fmt: skip

    # --- who is it? ------------------------------------------------------------------------------------------------------

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def known(self, member_id: str, instance_id: str | None) -> Member:
        """The member that speaks; raises if it is none any more, or another one has its instance id."""
        if instance_id is not None:
            member = self._instances.get(instance_id)
            if member is not None and member.member_id != member_id:
                raise FencedInstanceId(f"another member has the instance id {instance_id!r} by now")
        found = self._members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"group {self._group_id!r} has no member {member_id[:100]!r}")
        return found

    def named(self, member_id: str, instance_id: str | None) -> Member:
        """As ``known``; a static member may be named by its instance id alone."""
        if not member_id and instance_id is not None and instance_id in self._instances:
            return self._instances[instance_id]
        return self.known(member_id, instance_id)

    def find_or_add(self, request: JoinGroupRequest, client_id: str, now: float) -> Member:
        """Who joins. MemberIdRequired for one that is new and has no id yet; whoever asks for many would fill the group."""
        member = self._find(request)
        if member is None:
            self._check_size(request, client_id, None)
            return self._new(request.member_id or self._make_id(request.group_instance_id or ""), request, now)
        self._check_size(request, client_id, member)
        return member

    def _find(self, request: JoinGroupRequest) -> Member | None:
        """Who joins again; None for one that is new."""
        if request.group_instance_id is not None:
            known = self._instances.get(request.group_instance_id)
            if known is not None and not request.member_id:
                return known
            if known is None and not request.member_id:
                return None
            return self.known(request.member_id, request.group_instance_id)
        member = self._members.get(request.member_id)
        if member is not None:
            return member
        if not request.member_id:
            if request.needs_member_id:
                raise MemberIdRequired
            return None
        if self._promised.pop(request.member_id, None) is None:
            raise UnknownMemberId(f"group {self._group_id!r} has no member {request.member_id[:100]!r}")
        return None

    def _new(self, member_id: str, request: JoinGroupRequest, now: float) -> Member:
        if len(self._members) >= self.max_size:
            raise GroupMaxSizeReached(f"group {self._group_id!r} has {len(self)} members, as many as it may have")
        member = Member(member_id, request.group_instance_id, request.session_timeout_ms, request.rebalance_timeout_ms)
        member.heard(now)
        self._add(member)
        return member

    def _check_size(self, request: JoinGroupRequest, client_id: str, own: Member | None) -> None:
        """Only who is new, or tells more than before, is refused: the others go on."""
        mine = told_size(request, client_id)
        if own is not None and mine <= own.size:
            return
        told = sum(other.size for other in self._members.values() if other is not own)
        if told + mine > self._max_metadata_bytes:
            raise GroupMaxSizeReached(
                f"group {self._group_id!r}: what its {len(self)} members tell of themselves, and another {mine} bytes, are "
                f"more than the {self._max_metadata_bytes} bytes that a group may have",
                hint="subscribe to fewer topics, or by a pattern, or with fewer assignors",
            )

    def _add(self, member: Member) -> None:
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member

    def remove(self, member: Member) -> None:
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]

    def rename(self, member: Member) -> list[tuple[Ticket, Message]]:
        """Give a static member a new id; what those are told who wait under the old one."""
        assert member.instance_id is not None
        old, member.member_id = member.member_id, self._make_id(member.instance_id)
        self._members = {member.member_id if key == old else key: each for key, each in self._members.items()}
        why = FencedInstanceId(f"another member has the instance id {member.instance_id!r} by now")
        fenced: list[tuple[Ticket, Message]] = []
        if member.joining is not None:
            fenced.append((member.joining, JoinGroupResponse(why.code, str(why), member_id=old)))
        if member.syncing is not None:
            fenced.append((member.syncing, SyncGroupResponse(why.code, str(why))))
        member.joining = member.syncing = None
        return fenced

    # --- ids that were promised ------------------------------------------------------------------------------------------

    def promise_id(self, client_id: str, until: float) -> str:
        if len(self._promised) >= PROMISED_IDS_MAX:
            del self._promised[next(iter(self._promised))]
        member_id = self._make_id(client_id)
        self._promised[member_id] = until
        return member_id

    def forget_promises(self, now: float) -> None:
        self._promised = {member_id: until for member_id, until in self._promised.items() if until > now}

    # --- all together ----------------------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        return all(member.joining is not None for member in self)

    def rebalance_timeout_s(self) -> float:
        return max([member.rebalance_timeout_ms for member in self], default=0) / 1000

    def deadlines(self) -> list[float]:
        return [member.deadline for member in self if not member.waits] + list(self._promised.values())

    def expired(self, now: float) -> list[Member]:
        return [member for member in self if not member.waits and member.deadline <= now]

    def check_protocols(self, request: JoinGroupRequest, protocol_type: str) -> None:
        """Raise if the others have nothing in common with whoever joins."""
        if not request.protocols or not request.protocol_type:
            raise InconsistentGroupProtocol("a member must have a protocol type and at least one protocol")
        others = [member for member in self if not _is_same(member, request)]
        if not others:
            return
        if request.protocol_type != protocol_type:
            raise InconsistentGroupProtocol(
                f"group {self._group_id!r} is of type {protocol_type!r}, not {request.protocol_type[:100]!r}"
            )
        common, own = common_protocols(others), [protocol.name for protocol in request.protocols]
        if not common & set(own):
            raise InconsistentGroupProtocol(
                f"the members of group {self._group_id!r} have {', '.join(sorted(common))} in common; "
                f"this one understands {', '.join(own)[:200]}; "
                "give it one of theirs as its partition.assignment.strategy"
            )

    def choose_protocol(self) -> str:
        """Each votes for the first of its own that all understand. Most votes win; of equal ones, the first voted for."""
        common = common_protocols(self)
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self)
        return votes.most_common(1)[0][0]


def _is_same(member: Member, request: JoinGroupRequest) -> bool:
    if request.group_instance_id is not None and member.instance_id == request.group_instance_id:
        return True
    return member.member_id == request.member_id


def told_size(request: JoinGroupRequest, client_id: str) -> int:
    """What a member tells of itself, as it counts in the group's znode: names in json may be longer than they are."""
    member_id = request.member_id or request.group_instance_id or client_id  # one that is new gets a longer one
    return _size_of(protocols_of(request.protocols), client_id, member_id, request.group_instance_id)


def _size_of(protocols: tuple[tuple[str, bytes], ...], client_id: str, member_id: str, instance_id: str | None) -> int:
    names = (client_id, member_id, instance_id or "", *(name for name, _ in protocols))
    return sum(len(metadata) for _, metadata in protocols) + len(encode_json(names))


def protocols_of(protocols: Iterable[GroupProtocol]) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, protocol.metadata) for protocol in protocols)


def wants(protocols: tuple[tuple[str, bytes], ...]) -> list[tuple[str, object]]:
    """What a member wants, but for what it has: that is no news of one that comes back and has nothing yet."""
    return [(name, _topics(metadata)) for name, metadata in protocols]


def _topics(metadata: bytes) -> object:
    try:
        return decode_subscription(metadata).topics
    except InvalidRequest:
        return metadata  # of some other kind of group


def common_protocols(members: Iterable[Member]) -> set[str]:
    """What all understand."""
    common: set[str] | None = None
    for member in members:
        names = {name for name, _ in member.protocols}
        common = names if common is None else common & names
    return common or set()
