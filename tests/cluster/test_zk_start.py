"""ZooKeeper sessions that are lost while a broker starts: it waits for the next one instead of ending."""

import asyncio
from typing import Any

import pytest

from ottla.broker import membership_loop
from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.data_trust import DataTrust
from ottla.broker.membership_loop import MembershipLoop
from ottla.broker.peers import Identity
from ottla.wire.names import NO_EPOCH
from ottla.zk.errors import ConnectionLost, SessionExpired
from ottla.zk.lost_sessions import retry_when_lost
from ottla.zk.membership import DuplicateBrokerId, live_brokers, register
from ottla.zk.znodes.brokers import BrokerZnode
from tests.conftest import OpenSession

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("lost", [SessionExpired, ConnectionLost])
async def test_broker_whose_session_is_lost_while_it_registers_registers_in_the_next_one(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    session = await open_session(zk_connect)
    attempts = 0

    async def register_or_lose(*arguments: Any, **options: Any) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise lost("as the test says")
        return await register(*arguments, **options)

    monkeypatch.setattr(membership_loop, "register", register_or_lose)
    membership = MembershipLoop(
        session,
        BrokerZnode(1, "127.0.0.1", 9092, uuid="folder"),
        Identity(1, NO_EPOCH, "c", "00"),
        lambda broker: None,
        ControllerPolicy(),
        lambda is_controller: None,
        DataTrust([]),
    )
    await asyncio.wait_for(membership.start(), 30)
    try:
        assert membership.registered
        assert attempts == 2
        assert (await live_brokers(session))[1].broker_epoch == membership.identity.broker_epoch
    finally:
        await membership.stop()


async def test_other_errors_end_the_start(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)

    async def work() -> None:
        raise DuplicateBrokerId("taken")

    with pytest.raises(DuplicateBrokerId):
        await retry_when_lost(session, work)
    await session.close()

    async def lost() -> None:
        raise SessionExpired("gone")

    with pytest.raises(SessionExpired):
        await retry_when_lost(session, lost)
