"""The election loop of a broker on a live ZooKeeper: controllers that died in a moment in which nobody looked."""

import asyncio
from typing import Any

import pytest

from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.controller.election_loop import ElectionLoop
from ottla.broker.peers import Identity
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.election import ControllerTerm, OtherController, elect, take_over
from ottla.zk.ensemble.ports import free_ports
from ottla.zk.membership import ensure_persistent_paths
from ottla.zk.session.session import ZkSession
from tests.conftest import OpenSession
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster

FIRST, SECOND, OURS = 0, 2, 1


class LoopOfBroker1:
    """Broker 1's loop, to which all others have addresses that refuse connections, as those of dead processes do."""

    def __init__(self, session: ZkSession, *, knows_addresses: bool = True) -> None:
        self.terms: list[bool] = []
        ports = free_ports(3)
        self.loop = ElectionLoop(
            session,
            Identity(OURS, 1, "cluster", "00"),
            lambda broker: BrokerEndpoint(broker, "127.0.0.1", ports[broker]) if knows_addresses else None,
            ControllerPolicy(),
            self.terms.append,
        )

    async def knows(self, broker: int) -> None:
        await eventually(lambda: self.loop._other is not None and self.loop._other.broker_id == broker)


async def test_controller_that_died_before_this_broker_knew_of_its_election_is_replaced_at_once(
    zk_connect: str, open_session: OpenSession
) -> None:
    """Its connection ended while another broker still was the controller; its session would last for a minute."""
    session, others = await open_session(zk_connect), await open_session(zk_connect, timeout_ms=60_000)
    await ensure_persistent_paths(others)
    first = await elect(others, FIRST, 1)
    assert isinstance(first, ControllerTerm)
    ours = LoopOfBroker1(session)
    await ours.loop.start()
    try:
        await ours.knows(FIRST)
        ours.loop.peer_lost(SECOND)
        await take_over(others, SECOND, 1, dead=OtherController(FIRST, first.epoch))
        await eventually(lambda: ours.terms == [True])
    finally:
        await ours.loop.stop()


async def test_controller_whose_address_is_not_known_is_not_looked_at_without_end(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It became the controller and died before this broker heard of it: each look costs ZooKeeper a round of requests."""
    session, others = await open_session(zk_connect), await open_session(zk_connect, timeout_ms=60_000)
    await ensure_persistent_paths(others)
    first = await elect(others, FIRST, 1)
    assert isinstance(first, ControllerTerm)
    ours = LoopOfBroker1(session, knows_addresses=False)
    looks = 0

    async def counted(*arguments: Any) -> ControllerTerm | OtherController:
        nonlocal looks
        looks += 1
        return await elect(*arguments)

    monkeypatch.setattr("ottla.broker.controller.election_loop.elect", counted)
    await ours.loop.start()
    try:
        await ours.knows(FIRST)
        ours.loop.peer_lost(SECOND)
        await take_over(others, SECOND, 1, dead=OtherController(FIRST, first.epoch))
        await ours.knows(SECOND)
        before = looks
        await asyncio.sleep(1.0)
        assert looks - before <= 3
    finally:
        await ours.loop.stop()
