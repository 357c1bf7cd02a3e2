"""Settings of single groups, below /config/groups: read all at once, written by the controller alone."""

import asyncio
import logging
from collections.abc import Mapping

from ottla.zk.election import ControllerTerm, fenced_multi
from ottla.zk.errors import BadVersion, MultiFailed, NodeExists, NoNode
from ottla.zk.operations import Create, Delete, Operation, SetData
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.config import GroupConfigZnode
from ottla.zk.znodes.json_fields import MalformedZnode

logger = logging.getLogger(__name__)


async def load_group_configs(session: ZkSession) -> dict[str, Mapping[str, str]]:
    """The settings of each group that has some; not older than the moment of the call."""
    await session.sync("/")
    try:
        children = await session.children(GroupConfigZnode.PARENT)
    except NoNode:  # older clusters have none until the first one is written
        return {}
    groups = [GroupConfigZnode.group_of(child) for child in children]
    found = await asyncio.gather(*(_read(session, group) for group in groups))
    return {group: config for group, config in zip(groups, found, strict=True) if config}


async def _read(session: ZkSession, group: str) -> Mapping[str, str]:
    try:
        data, _ = await session.get(GroupConfigZnode.path(group))
        return GroupConfigZnode.decode(group, data).config if data else {}
    except NoNode:
        return {}
    except MalformedZnode as error:
        logger.error("settings ignored group=%s error=%s", group, error)
        return {}


async def set_group_config(session: ZkSession, term: ControllerTerm, group: str, config: Mapping[str, str]) -> None:
    """Replace the settings of a group; without any, its znode goes."""
    path, data = GroupConfigZnode.path(group), GroupConfigZnode(config).encode()
    while True:
        stat = await session.exists(path)
        if stat is None and not config:
            return
        operation: Operation
        if stat is None:
            operation = Create(path, data)
        else:
            operation = SetData(path, data, stat.version) if config else Delete(path, stat.version)
        try:
            await fenced_multi(session, term, [operation])
            return
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            await session.create_if_missing(GroupConfigZnode.PARENT)
