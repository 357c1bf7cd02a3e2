"""Groups in ZooKeeper: what their coordinators read when they begin, and the operations of what they write."""

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.zk.errors import BadVersion, MultiFailed, NoNode
from ottla.zk.operations import (
    REQUEST_SIZE_MAX,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    Stat,
    in_chunks,
    request_size,
)
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import (
    PARENT,
    CommitZnode,
    GroupZnode,
    LifeZnode,
    MemberZnode,
    OffsetZnode,
    OwnerZnode,
    name_in_path,
)
from ottla.zk.znodes.json_fields import MalformedZnode, decimal

ANY_VERSION = -1
READS_AT_ONCE = 200
SHOWN_BYTES = 400_000
"""Of members and owners as they are shown to people so much is written at a time: names in paths may be long. With the next
write comes more."""
ROOM_TO_SPARE = 20_000
"""For what belongs to every multi, and what sizes are not exact about."""


@dataclass(frozen=True)
class Committed:
    """What was committed of a partition."""

    offset: int
    commit: CommitZnode = CommitZnode()


@dataclass
class LoadedGroup:
    """A group as it stands in ZooKeeper. ``version`` of its znode, with its life, is what fences coordinators."""

    group: str
    znode: GroupZnode
    version: int
    czxid: int
    """By which write its znode was made."""
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    """Those that stand below ids,"""
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """below owners,"""
    folders: set[str] = field(default_factory=set)
    """and all znodes that have others below them."""
    commits: set[TopicPartition] = field(default_factory=set)
    """Where a CommitZnode stands."""
    unreadable: set[TopicPartition] = field(default_factory=set)
    """Where an offset stands that is none: as if nothing had been committed."""

    def fence(self, record: GroupZnode | None = None) -> list[Operation]:
        """How a write of this group's coordinator begins; with what the group's znode has from then on, if that changes.

        Invariant [I22]: the first operation fails once another broker has taken the group over, the second once it was deleted,
        also if it was made anew and its znode has the same version again: ids of lives never come again.
        """
        path = GroupZnode.path(self.group)
        head = Check(path, self.version) if record is None else SetData(path, record.encode(), self.version)
        return [head, Check(LifeZnode.path(self.group, self.znode.life), 0)]


FENCE = 2
"""How many operations a fence has."""


async def load_group(session: ZkSession, group: str, *, make: bool = True) -> LoadedGroup | None:
    """Everything about a group, as ``find_group``."""
    loaded = await find_group(session, group, make=make)
    if loaded is not None:
        await _load_below(session, loaded)
    return loaded


async def find_group(session: ZkSession, group: str, *, make: bool = True) -> LoadedGroup | None:
    """A group's own znode. One that does not exist is made, if wanted: its version fences from the first write on."""
    await session.sync("/")
    path = GroupZnode.path(group)
    try:
        data, stat = await session.get(path)
    except NoNode:
        if not make:
            return None
        await _make_group(session, group)
        data, stat = await session.get(path)
    return LoadedGroup(group, GroupZnode.decode(group, data), stat.version, stat.czxid)


async def _load_below(session: ZkSession, loaded: LoadedGroup) -> None:
    loaded.offsets, loaded.owners, loaded.folders, loaded.unreadable = {}, {}, set(), set()
    await asyncio.gather(_load_offsets(session, loaded), _load_owners(session, loaded), _load_members(session, loaded))


async def _make_group(session: ZkSession, group: str) -> None:
    """Its version begins with 1: whoever has seen a znode of version 0 saw one that was made by hand."""
    path, life = GroupZnode.path(group), _new_life()
    made: list[Operation] = [
        Create(path),
        SetData(path, GroupZnode(life=life).encode(), 0),
        Create(LifeZnode.path(group, life)),
    ]
    try:
        await session.multi(made)
    except MultiFailed:
        pass  # somebody else was faster, or the next step tells what is wrong


async def take_over(session: ZkSession, loaded: LoadedGroup, coordinator: int, now_ms: int) -> None:
    """Write that a broker coordinates a group, and read what is below it. BadVersion if another was faster.

    Invariant [I22]: in this order. Who did before can write nothing more once it is written; what it wrote until then is read.
    """
    life = loaded.znode.life or _new_life()
    mine = replace(loaded.znode, coordinator=coordinator, touched_ms=loaded.znode.touched_ms or now_ms, life=life)
    operations = loaded.fence(mine)
    if not loaded.znode.life:
        operations[1] = Create(LifeZnode.path(loaded.group, life))
    try:
        stat = (await session.multi(operations))[0]
    except MultiFailed as failed:
        raise BadVersion(f"group {loaded.group!r} changed hands while it was read: {failed}") from None
    assert isinstance(stat, Stat)
    if (
        stat.czxid != loaded.czxid
    ):  # a group made by hand, deleted, made anew, and changed as often: nothing that was read holds
        raise BadVersion(f"group {loaded.group!r} was deleted and made anew while it was read")
    loaded.znode, loaded.version = mine, stat.version
    await _load_below(session, loaded)


def _new_life() -> str:
    return uuid.uuid4().hex


async def delete_group(session: ZkSession, loaded: LoadedGroup) -> None:
    """Delete a group and all below it, fenced as any other write of its coordinator. MultiFailed if it has another by now."""
    path = GroupZnode.path(loaded.group)
    # First what fences its coordinators: nothing that is still on its way can be written after this.
    ended: list[Operation] = [
        SetData(path, b"", loaded.version),
        Delete(LifeZnode.path(loaded.group, loaded.znode.life), 0),
    ]
    stat = (await session.multi(ended))[0]
    assert isinstance(stat, Stat)
    below: list[Operation] = [Delete(znode, ANY_VERSION) for znode in await _below(session, path)]
    for chunk in in_chunks(below):
        await session.multi([Check(path, stat.version), *chunk])
    await session.multi([Delete(path, stat.version)])


async def _below(session: ZkSession, path: str) -> list[str]:
    """All znodes below one, leaves first."""
    try:
        names = await session.children(path)
    except NoNode:
        return []
    found: list[str] = []
    for name in names:
        found += [*await _below(session, f"{path}/{name}"), f"{path}/{name}"]
    return found


async def _load_members(session: ZkSession, loaded: LoadedGroup) -> None:
    names = await _children(session, MemberZnode.parent(loaded.group), loaded)
    loaded.members = {
        member for name in names if name_in_path(member := GroupZnode.group_of(name)) == name
    }  # others were written by hand


async def _load_owners(session: ZkSession, loaded: LoadedGroup) -> None:
    for where, data in (await _leaves(session, OwnerZnode.parent(loaded.group), loaded)).items():
        loaded.owners[where] = data.decode(errors="replace")


async def _load_offsets(session: ZkSession, loaded: LoadedGroup) -> None:
    offsets = await _leaves(session, OffsetZnode.parent(loaded.group), loaded)
    commits = await _leaves(session, CommitZnode.parent(loaded.group), loaded)
    loaded.commits = set(commits)
    for where, data in offsets.items():
        path = OffsetZnode.path(loaded.group, *where)
        try:
            offset = decimal(path, data.decode(errors="replace").strip())
            commit = CommitZnode.decode(path, commits[where]) if where in commits else CommitZnode()
        except MalformedZnode:
            loaded.unreadable.add(where)  # written by hand
            continue
        loaded.offsets[where] = Committed(offset, commit)


async def _leaves(session: ZkSession, parent: str, loaded: LoadedGroup) -> dict[TopicPartition, bytes]:
    """The data of all <parent>/<topic>/<partition>."""
    topics = await _children(session, parent, loaded)
    partitions = await asyncio.gather(*(_children(session, f"{parent}/{topic}", loaded) for topic in topics))
    names = [
        (topic, number)
        for topic, numbers in zip(topics, partitions, strict=True)
        for number in numbers
        if _is_partition(number)
    ]
    found: dict[TopicPartition, bytes] = {}
    for start in range(0, len(names), READS_AT_ONCE):
        chunk = names[start : start + READS_AT_ONCE]
        results = await asyncio.gather(
            *(session.get(f"{parent}/{topic}/{number}") for topic, number in chunk), return_exceptions=True
        )
        for (topic, number), result in zip(chunk, results, strict=True):
            if isinstance(result, NoNode):
                continue
            if isinstance(result, BaseException):
                raise result
            found[TopicPartition(topic, int(number))] = result[0]
    return found


def _is_partition(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10


async def _children(session: ZkSession, path: str, loaded: LoadedGroup) -> list[str]:
    try:
        names = await session.children(path)
    except NoNode:
        return []
    loaded.folders.add(path)
    return names


async def group_names(session: ZkSession) -> list[str]:
    return [GroupZnode.group_of(name) for name in await session.children(PARENT)]


# --- what is written -----------------------------------------------------------------------------------------------------


class GroupWrite:
    """The operations of one write about one group. What it leaves behind in ``LoadedGroup`` is put there by ``done``."""

    def __init__(self, loaded: LoadedGroup) -> None:
        self._loaded = loaded
        self._group = loaded.group
        self._made: dict[str, None] = {}
        self._offsets: dict[TopicPartition, Committed | None] = {}
        self._owners: dict[TopicPartition, str] | None = None
        self._members: set[str] | None = None
        self._commits: set[TopicPartition] = set()
        self._forgotten: set[TopicPartition] = set()
        self._room = SHOWN_BYTES
        self.operations: list[Operation] = []

    def commit(self, where: TopicPartition, committed: Committed) -> None:
        known = self._offsets.get(where, self._loaded.offsets.get(where))
        path = OffsetZnode.path(self._group, *where)
        data = OffsetZnode.encode(committed.offset)
        if known is not None or (where in self._loaded.unreadable and where not in self._offsets):
            if known is None or known.offset != committed.offset:
                self.operations.append(SetData(path, data, ANY_VERSION))
        else:
            self._make_folders(OffsetZnode.parent(self._group), OffsetZnode.topic_path(self._group, where.topic))
            self.operations.append(Create(path, data))
        self._commit_details(where, committed.commit, known)
        self._offsets[where] = committed

    def _commit_details(self, where: TopicPartition, commit: CommitZnode, known: Committed | None) -> None:
        path = CommitZnode.path(self._group, *where)
        if where in self._commits or (where in self._loaded.commits and where not in self._forgotten):
            if known is None or known.commit != commit:
                self.operations.append(SetData(path, commit.encode(), ANY_VERSION))
        elif commit != CommitZnode():
            self._make_folders(CommitZnode.parent(self._group), CommitZnode.topic_path(self._group, where.topic))
            self.operations.append(Create(path, commit.encode()))
            self._commits.add(where)

    def forget(self, where: TopicPartition) -> None:
        """What was committed of a partition is deleted."""
        if self._offsets.get(where, self._loaded.offsets.get(where)) is not None:
            self.operations.append(Delete(OffsetZnode.path(self._group, *where), ANY_VERSION))
        if where in self._commits or (where in self._loaded.commits and where not in self._forgotten):
            self.operations.append(Delete(CommitZnode.path(self._group, *where), ANY_VERSION))
        self._commits.discard(where)
        self._forgotten.add(where)
        self._offsets[where] = None

    def leave_room(self, size: int) -> None:
        """So much of the multi is needed for something else."""
        self._room = min(self._room, REQUEST_SIZE_MAX - ROOM_TO_SPARE - size)

    def own(self, owners: Mapping[TopicPartition, str]) -> None:
        """Who has which partition from now on; shown as far as there is room."""
        shown = dict(self._loaded.owners)
        for where in [*(shown.keys() - owners.keys()), *owners]:
            known, member = shown.get(where), owners.get(where)
            path = OwnerZnode.path(self._group, *where)
            if known == member:
                continue
            if not self._has_room(path, member or ""):
                break
            if member is None:
                self.operations.append(Delete(path, ANY_VERSION))
                del shown[where]
                continue
            if known is None:
                self._make_folders(OwnerZnode.parent(self._group), OwnerZnode.topic_path(self._group, where.topic))
                self.operations.append(Create(path, member.encode()))
            else:
                self.operations.append(SetData(path, member.encode(), ANY_VERSION))
            shown[where] = member
        self._owners = shown

    def set_members(self, members: Mapping[str, bytes]) -> None:
        """Who is in the group from now on; as above."""
        parent = MemberZnode.parent(self._group)
        shown = set(self._loaded.members)
        for member in sorted(shown ^ members.keys(), key=lambda member: member in members):  # first who is not any more
            path = MemberZnode.path(self._group, member)
            if not self._has_room(path, members.get(member, b"")):
                break
            if member in members:
                self._make_folders(parent)
                self.operations.append(Create(path, members[member]))
            else:
                self.operations.append(Delete(path, ANY_VERSION))
            shown ^= {member}
        self._members = shown

    def _has_room(self, path: str, data: str | bytes) -> bool:
        """For one more znode, and the folders that it may need."""
        self._room -= request_size(Delete(path, ANY_VERSION)) + len(data)
        return self._room > 2 * len(path)

    def _make_folders(self, *paths: str) -> None:
        for path in paths:
            if path not in self._loaded.folders and path not in self._made:
                self._made[path] = None
                self.operations.append(Create(path))

    def done(self) -> None:
        """It was written."""
        loaded = self._loaded
        loaded.folders |= self._made.keys()
        loaded.commits = (loaded.commits - self._forgotten) | self._commits
        loaded.unreadable -= self._offsets.keys()
        for where, committed in self._offsets.items():
            if committed is None:
                loaded.offsets.pop(where, None)
            else:
                loaded.offsets[where] = committed
        if self._owners is not None:
            loaded.owners = self._owners
        if self._members is not None:
            loaded.members = self._members


def legal_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that can have a znode: what comes out of a client's bytes may be anything."""
    legal = []
    for where in partitions:
        try:
            check_topic_name(where.topic)
        except OttlaError:
            continue
        if 0 <= where.partition < 10**9:
            legal.append(where)
    return legal
