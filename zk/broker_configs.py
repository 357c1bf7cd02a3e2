"""What brokers were told while they run, below /config/brokers: read all at once, written by the controller alone."""

import asyncio
import logging
from collections.abc import Mapping

from ottla.zk.election import ControllerTerm, fenced_multi
from ottla.zk.errors import BadVersion, MultiFailed, NodeExists, NoNode
from ottla.zk.operations import Create, Operation, SetData
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.config import BrokerConfigZnode
from ottla.zk.znodes.json_fields import MalformedZnode

logger = logging.getLogger(__name__)


async def load_broker_configs(session: ZkSession) -> dict[str, Mapping[str, str]]:
    """By the broker's number, and "" for all brokers; not older than the moment of the call."""
    await session.sync("/")
    try:
        children = await session.children(BrokerConfigZnode.PARENT)
    except NoNode:  # somebody deleted it: no reason to have no controller
        return {}
    names = [BrokerConfigZnode.broker_of(child) for child in children]
    found = await asyncio.gather(*(_read(session, name) for name in names))
    return {name: config for name, config in zip(names, found, strict=True) if config is not None}


async def _read(session: ZkSession, name: str) -> Mapping[str, str] | None:
    try:
        data, _ = await session.get(BrokerConfigZnode.path(name))
        return BrokerConfigZnode.decode(name, data).config if data else {}
    except NoNode:
        return None
    except MalformedZnode as error:
        logger.error("settings ignored broker=%s error=%s", name or "all", error)
        return None


async def set_broker_config(session: ZkSession, term: ControllerTerm, name: str, config: Mapping[str, str]) -> None:
    """Replace what a broker was told, or all of them ("")."""
    path, data = BrokerConfigZnode.path(name), BrokerConfigZnode(config).encode()
    while True:
        stat = await session.exists(path)
        operation: Operation = Create(path, data) if stat is None else SetData(path, data, stat.version)
        try:
            await fenced_multi(session, term, [operation])
            return
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            await session.create_if_missing(BrokerConfigZnode.PARENT)  # or it could never be written
