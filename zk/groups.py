"""Groups in ZooKeeper: what their coordinators read when they begin, and the operations of what they write."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.zk.errors import NodeExists, NoNode, NotEmpty
from ottla.zk.operations import Create, Delete, Operation, SetData
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import (
    PARENT,
    CommitZnode,
    GroupZnode,
    MemberZnode,
    OffsetZnode,
    OwnerZnode,
    name_in_path,
)
from ottla.zk.znodes.json_fields import MalformedZnode, decimal

ANY_VERSION = -1
READS_AT_ONCE = 200


@dataclass(frozen=True)
class Committed:
    """What was committed of a partition."""

    offset: int
    commit: CommitZnode = CommitZnode()


@dataclass
class LoadedGroup:
    """A group as it stands in ZooKeeper. ``version`` of its znode is what fences coordinators."""

    group: str
    znode: GroupZnode
    version: int
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


async def load_group(session: ZkSession, group: str, *, make: bool = True) -> LoadedGroup | None:
    """Everything about a group. One that does not exist is made, if wanted: its version fences from the first write on."""
    await session.sync("/")
    path = GroupZnode.path(group)
    try:
        data, stat = await session.get(path)
    except NoNode:
        if not make:
            return None
        try:
            await session.create(path, GroupZnode().encode())
        except NodeExists:
            pass
        data, stat = await session.get(path)
    loaded = LoadedGroup(group, GroupZnode.decode(group, data), stat.version)
    await asyncio.gather(_load_offsets(session, loaded), _load_owners(session, loaded), _load_members(session, loaded))
    return loaded


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


async def delete_tree(session: ZkSession, path: str) -> None:
    """Everything below a znode, and it: leaves first. What somebody else deletes meanwhile is fine."""
    try:
        names = await session.children(path)
    except NoNode:
        return
    for name in names:
        await delete_tree(session, f"{path}/{name}")
    try:
        await session.delete(path, ANY_VERSION)
    except NoNode:
        pass
    except NotEmpty:
        raise OttlaError(f"znode {path} got new children while it was deleted") from None


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

    def own(self, owners: Mapping[TopicPartition, str]) -> None:
        """Who has which partition from now on."""
        known = self._loaded.owners
        for where in known.keys() - owners.keys():
            self.operations.append(Delete(OwnerZnode.path(self._group, *where), ANY_VERSION))
        for where, member in owners.items():
            path = OwnerZnode.path(self._group, *where)
            if where not in known:
                self._make_folders(OwnerZnode.parent(self._group), OwnerZnode.topic_path(self._group, where.topic))
                self.operations.append(Create(path, member.encode()))
            elif known[where] != member:
                self.operations.append(SetData(path, member.encode(), ANY_VERSION))
        self._owners = dict(owners)

    def set_members(self, members: Mapping[str, bytes]) -> None:
        """Who is in the group from now on."""
        parent = MemberZnode.parent(self._group)
        for member in self._loaded.members - members.keys():
            self.operations.append(Delete(MemberZnode.path(self._group, member), ANY_VERSION))
        for member in members.keys() - self._loaded.members:
            self._make_folders(parent)
            self.operations.append(Create(MemberZnode.path(self._group, member), members[member]))
        self._members = set(members)

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
