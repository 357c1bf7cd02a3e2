"""Settings of running brokers and of groups on a live ZooKeeper: what is written is read, whatever people did there."""

import asyncio

import pytest

from ottla.wire.errors import StaleControllerEpoch
from ottla.zk.broker_configs import load_broker_configs, set_broker_config
from ottla.zk.election import ControllerTerm, OtherController, elect, take_over
from ottla.zk.group_configs import load_group_configs, set_group_config
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.config import BrokerConfigZnode, GroupConfigZnode
from tests.conftest import OpenSession
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


@pytest.fixture
async def session(open_session: OpenSession, zk_connect: str) -> ZkSession:
    opened = await open_session(zk_connect)
    await ensure_persistent_paths(opened)
    return opened


@pytest.fixture
async def term(session: ZkSession) -> ControllerTerm:
    begun = await elect(session, 1, 1)
    assert isinstance(begun, ControllerTerm)
    return begun


async def test_what_is_written_is_read_and_nonsense_beside_it_is_left_out(
    session: ZkSession, term: ControllerTerm
) -> None:
    await set_broker_config(session, term, "", {"log.retention.ms": "5"})
    await set_broker_config(session, term, "2", {"log.retention.ms": "6"})
    await set_broker_config(session, term, "2", {"log.retention.ms": "7"})
    for child, data in (("nobody", b"\xff"), ("3", b"[]"), ("4", b"")):
        await session.create(f"{BrokerConfigZnode.PARENT}/{child}", data)
    assert await load_broker_configs(session) == {
        "": {"log.retention.ms": "5"},
        "2": {"log.retention.ms": "7"},
        "4": {},
    }


async def test_folder_that_somebody_deleted_stands_for_no_settings_and_is_made_anew(
    session: ZkSession, term: ControllerTerm
) -> None:
    """Else no controller could begin its term, and one that has begun would try to write for ever, and do nothing else."""
    await session.delete(BrokerConfigZnode.PARENT, -1)
    assert await load_broker_configs(session) == {}
    async with asyncio.timeout(scaled(5)):
        await set_broker_config(session, term, "1", {"log.retention.ms": "5"})
    assert await load_broker_configs(session) == {"1": {"log.retention.ms": "5"}}


async def test_controller_whose_term_is_over_writes_nothing(session: ZkSession, term: ControllerTerm) -> None:
    await take_over(session, 2, 1, dead=OtherController(1, term.epoch))
    with pytest.raises(StaleControllerEpoch):
        await set_broker_config(session, term, "", {"log.retention.ms": "5"})
    assert await load_broker_configs(session) == {}


async def test_settings_of_groups_are_written_read_and_removed(session: ZkSession, term: ControllerTerm) -> None:
    odd = "a/b %..\u00e9"
    await session.delete(GroupConfigZnode.PARENT, -1)
    assert await load_group_configs(session) == {}
    async with asyncio.timeout(scaled(5)):
        await set_group_config(session, term, odd, {"consumer.session.timeout.ms": "50000"})
        await set_group_config(session, term, odd, {"consumer.session.timeout.ms": "60000"})
        await set_group_config(session, term, "other", {"consumer.session.timeout.ms": "50000"})
        await set_group_config(session, term, "other", {})
        await set_group_config(session, term, "never", {})
    await session.create(f"{GroupConfigZnode.PARENT}/nonsense", b"[]")
    assert await load_group_configs(session) == {odd: {"consumer.session.timeout.ms": "60000"}}
    assert sorted(await session.children(GroupConfigZnode.PARENT))[-1] == "nonsense"
