"""The access lists of a whole tree: a broker closes the root before it writes, and a tool closes or opens what stands already.

Both may be done again at any time, and while brokers work: a znode that has its list already is left alone, and one that
goes meanwhile is nobody's concern.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from ottla.zk.access import OPEN_ACL, OWN_ROOTS, Acl, Digest, closed_acl, lets_others_write, same_rights
from ottla.zk.errors import NoNode, NotAuthorized
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.cluster import SecretZnode

logger = logging.getLogger(__name__)

_ZNODES_AT_ONCE = 500


@dataclass(slots=True)
class TreeReport:
    """How many znodes had the wanted list already, how many got it, and which ones have another (if it was only asked)."""

    right: int = 0
    changed: int = 0
    wrong: list[str] = field(default_factory=list)


async def close_root(session: ZkSession) -> None:
    """Before the first znode is written: whoever may write to the root could delete /controller_epoch, or make it.

    Without a chroot this is ZooKeeper's own root. A root to which somebody gave rights of his own is left as it is.
    """
    digest, root = session.digest, session.connect.chroot or "/"
    assert digest is not None
    acl = await session.get_acl("/")
    if same_rights(acl, OPEN_ACL):
        await session.set_acl("/", closed_acl("/", digest))
        logger.info("zookeeper root closed root=%s user=%s", root, digest.user)
    elif lets_others_write(acl):
        logger.warning("others may write to the zookeeper root, and delete what stands there root=%s", root)


async def warn_if_open(session: ZkSession) -> None:
    """A tree that was there before its brokers had a digest stays open until somebody closes it."""
    try:
        is_open = same_rights(await session.get_acl(SecretZnode.PATH), OPEN_ACL)
    except NoNode:
        return
    if is_open:
        logger.warning(
            "zookeeper.set.acl is true, but older znodes are open to all: run `ottla zookeeper acl --secure`"
        )


async def set_tree_acl(session: ZkSession, digest: Digest, *, closed: bool, change: bool = True) -> TreeReport:
    """Give every znode of a cluster the list that it should have; parents first, so that nobody adds what is not seen."""
    report = TreeReport()

    async def visit(path: str) -> list[str]:
        try:
            await _set(session, path, closed_acl(path, digest) if closed else OPEN_ACL, change, report)
            below = [f"{path.rstrip('/')}/{name}" for name in await session.children(path)]
        except NoNode:
            return []
        return below if path != "/" else [child for child in below if child in OWN_ROOTS]

    await session.sync("/")
    level = ["/"]
    while level:
        below: list[str] = []
        for start in range(0, len(level), _ZNODES_AT_ONCE):
            found = await asyncio.gather(*map(visit, level[start : start + _ZNODES_AT_ONCE]))
            below += [path for paths in found for path in paths]
        level = below
    return report


async def _set(session: ZkSession, path: str, wanted: Acl, change: bool, report: TreeReport) -> None:
    try:
        if same_rights(await session.get_acl(path), wanted):
            report.right += 1
        elif change:
            await session.set_acl(path, wanted)
            report.changed += 1
        else:
            report.wrong.append(path)
    except NotAuthorized:
        raise NotAuthorized(
            f"{path} belongs to another user of ZooKeeper than the {session.digest}",
            hint="give the digest that closed it; what was done before stays done",
        ) from None
