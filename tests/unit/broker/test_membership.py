"""A broker that is fenced gives everything up, and comes back, whatever happens on the way."""

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.membership_loop import MembershipLoop
from ottla.broker.peers import Identity
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.brokers import BrokerZnode


async def test_what_one_part_fails_to_give_up_keeps_no_other_from_it_nor_the_broker_from_coming_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobody: Any = None
    identity = Identity(1, 5, "c", "")
    broker = BrokerZnode(1, "", 0)
    loop = MembershipLoop(cast(ZkSession, nobody), broker, identity, nobody, ControllerPolicy(), nobody, nobody)
    loop.registered = True
    given_up = []

    def fails() -> None:
        raise ValueError("a part that fails")

    loop.on_fenced += [fails, lambda: given_up.append("the next part")]
    loop._own_znode_seen(None, None)
    assert given_up == ["the next part"]
    assert "could not be given up" in caplog.text
    async with asyncio.timeout(1):
        await loop._outdated.wait()
