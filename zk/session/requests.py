"""What can be asked of ZooKeeper, each request once; every znode that is made gets its access list here."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ottla.zk.access import Acl, AclEntry, AclId, acl_at_creation
from ottla.zk.errors import MultiFailed, NodeExists, NoNode, RequestTooLarge
from ottla.zk.operations import (
    REQUEST_SIZE_MAX,
    Check,
    Create,
    Delete,
    Operation,
    OperationResult,
    SetData,
    Stat,
    request_size,
)
from ottla.zk.session.connect_string import ConnectString
from ottla.zk.session.pipeline import Pipeline, Watch, as_zk_error

_ANY_VERSION = -1


class ZkRequests:
    """The requests of a session. ``sets_acl``: what it creates belongs to its user (``zk/access.py``); else to everybody."""

    connect: ConnectString
    sets_acl: bool
    _client: Any
    _pipeline: Pipeline

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """A znode's data and stat; NoNode (and no watch set) if it does not exist."""
        data, stat = await self._pipeline.request(partial(self._client.get_async, self._absolute(path)), path, watch)
        return data or b"", _stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """A znode's stat, or None; the watch is set in both cases."""
        stat = await self._pipeline.request(partial(self._client.exists_async, self._absolute(path)), path, watch)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a znode's children, sorted; NoNode (and no watch set) if it does not exist."""
        call = partial(self._client.get_children_async, self._absolute(path))
        return sorted(await self._pipeline.request(call, path, watch))

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create a znode and return its path, which has a number appended if ``sequence``."""
        _check_size(path, len(path) + len(data))
        node, acl = self._absolute(path), self._acl(path)
        call = partial(self._client.create_async, node, data, acl=acl, ephemeral=ephemeral, sequence=sequence)
        try:
            created = await self._pipeline.request(call, path)
        except NoNode:
            parent = path.rpartition("/")[0]
            if not make_parents or not parent:
                raise
            await self.create_if_missing(parent)
            created = await self._pipeline.request(call, path)
        return self._relative(created)

    async def create_if_missing(self, path: str) -> None:
        """Make sure that a persistent znode and its parents exist; existing ones are left as they are."""
        absolute, chroot = self._absolute(path), self.connect.chroot
        ends = [end for end in range(1, len(absolute)) if absolute[end] == "/"]
        for node in [*(absolute[:end] for end in ends), absolute]:
            if await self._pipeline.request(partial(self._client.exists_async, node), node) is None:
                # What stands above a chroot is not ours alone: it stays open.
                acl = self._acl(self._relative(node)) if len(node) >= len(chroot) else None
                try:
                    await self._pipeline.request(partial(self._client.create_async, node, b"", acl=acl), node)
                except NodeExists:
                    pass  # somebody else was as quick

    def _acl(self, path: str) -> Acl | None:
        """None: open to everybody, as kazoo has it."""
        return acl_at_creation(path) if self.sets_acl else None

    async def set(self, path: str, data: bytes, version: int) -> Stat:
        """Replace a znode's data if it still has this version."""
        _check_size(path, len(path) + len(data))
        call = partial(self._client.set_async, self._absolute(path), data, version)
        return _stat(await self._pipeline.request(call, path))

    async def delete(self, path: str, version: int) -> None:
        """Delete a znode if it still has this version."""
        await self._pipeline.request(partial(self._client.delete_async, self._absolute(path), version), path)

    async def get_acl(self, path: str) -> Acl:
        """A znode's access list; who may not change it is not shown the hashes in it."""
        entries, _ = await self._pipeline.request(partial(self._client.get_acls_async, self._absolute(path)), path)
        return tuple(AclEntry(entry.perms, AclId(entry.id.scheme, entry.id.id)) for entry in entries)

    async def set_acl(self, path: str, acl: Acl) -> None:
        """Replace a znode's access list, whatever it was."""
        call = partial(self._client.set_acls_async, self._absolute(path), acl, _ANY_VERSION)
        await self._pipeline.request(call, path)

    async def sync(self, path: str) -> None:
        """Wait until our server has caught up with ZooKeeper's leader: what is read afterwards is not older than now."""
        await self._pipeline.request(partial(self._client.sync_async, self._absolute(path)), path)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All of these or, with MultiFailed, none."""
        paths = [operation.path for operation in operations]
        _check_size(f"multi of {len(operations)} on {paths[0]}", sum(map(request_size, operations)))
        results = await self._pipeline.request(partial(self._commit, operations), f"multi on {paths[0]}")
        failed = [(error, path) for error, path in zip(results, paths, strict=True) if isinstance(error, Exception)]
        if failed:
            # Invariant: ZooKeeper answers a failed multi with an error for every single operation.
            assert len(failed) == len(paths), results
            raise MultiFailed([as_zk_error(error, path) for error, path in failed], paths)
        return [self._result(operation, result) for operation, result in zip(operations, results, strict=True)]

    def _commit(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for operation in operations:
            path = self._absolute(operation.path)
            match operation:
                case Create(data=data, ephemeral=ephemeral):
                    transaction.create(path, data, acl=self._acl(operation.path), ephemeral=ephemeral)
                case SetData(data=data, version=version):
                    transaction.set_data(path, data, version)
                case Delete(version=version):
                    transaction.delete(path, version)
                case Check(version=version):
                    transaction.check(path, version)
        return transaction.commit_async()

    def _result(self, operation: Operation, result: Any) -> OperationResult:
        if isinstance(operation, Create):
            return self._relative(result)
        return _stat(result) if isinstance(operation, SetData) else None

    def _absolute(self, path: str) -> str:
        assert path.startswith("/"), f"znode path {path!r} must start with a slash"
        return self.connect.chroot + path if path != "/" else self.connect.chroot or "/"

    def _relative(self, absolute: str) -> str:
        return absolute[len(self.connect.chroot) :] or "/"


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.mtime)


def _check_size(what: str, size: int) -> None:
    if size > REQUEST_SIZE_MAX:
        raise RequestTooLarge(f"{what} has {size} bytes, but ZooKeeper takes at most {REQUEST_SIZE_MAX} in one request")
