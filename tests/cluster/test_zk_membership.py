"""Registration, fencing and election on a live server."""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.wire.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.zk.election import ControllerTerm, OtherController, elect, fenced_multi, resign, take_over
from ottla.zk.errors import ConnectionLost
from ottla.zk.membership import (
    DuplicateBrokerId,
    cluster_id,
    cluster_secret,
    fence,
    live_brokers,
    register,
)
from ottla.zk.operations import Create, Operation, OperationResult
from ottla.zk.session.session import ZkSession
from ottla.zk.watches import ChildrenWatch
from ottla.zk.znodes.brokers import BrokerEpochZnode, BrokerState, BrokerZnode
from ottla.zk.znodes.controller import ControllerZnode
from ottla.zk.znodes.uuids import uuid_from_text
from tests.conftest import OpenSession
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster

BROKER = BrokerZnode(1, "127.0.0.1", 9092, rack="r1", uuid="folder-1", timestamp_ms=1_700_000_000_000)


async def register_once(session: ZkSession, broker: BrokerZnode, incarnation: str | None = None) -> int:
    return await register(session, broker, incarnation=incarnation or uuid.uuid4().hex, boot_id="boot-1")


async def won(session: ZkSession, broker_id: int) -> ControllerTerm:
    term = await elect(session, broker_id, 1)
    assert isinstance(term, ControllerTerm)
    return term


def lose_answers_of_multi(session: ZkSession, monkeypatch: pytest.MonkeyPatch, count: int = 1) -> None:
    """The next multis take effect, but their answers are lost, as when the connection drops at that moment."""
    really = session.multi
    left = count

    async def multi(operations: Sequence[Operation]) -> list[OperationResult]:
        nonlocal left
        results = await really(operations)
        if left:
            left -= 1
            raise ConnectionLost("the answer was lost")
        return results

    monkeypatch.setattr(session, "multi", multi)


async def test_registered_broker_is_ephemeral_and_says_its_address(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    broker_epoch = await register_once(session, BROKER)
    data, stat = await session.get("/brokers/ids/1")
    assert stat.ephemeral_owner == session.session_id
    found: dict[str, Any] = json.loads(data)
    assert (found["version"], found["host"], found["port"], found["rack"]) == (5, "127.0.0.1", 9092, "r1")
    assert (found["uuid"], found["broker_epoch"]) == ("folder-1", broker_epoch)
    epoch_data, epoch_stat = await session.get("/brokers/epochs/1")
    assert epoch_stat.version == broker_epoch
    assert BrokerEpochZnode.decode(1, epoch_data).state is BrokerState.LIVE
    live = await live_brokers(session)
    assert live[1] == replace(BROKER, broker_epoch=broker_epoch)


async def test_every_life_of_a_broker_has_a_higher_epoch(zk_connect: str, open_session: OpenSession) -> None:
    epochs = []
    for _ in range(3):
        session = ZkSession(zk_connect)
        await session.start(10)
        epochs.append(await register_once(session, BROKER))
        await session.close()
    assert epochs == sorted(set(epochs))
    session = await open_session(zk_connect)
    assert await live_brokers(session) == {}


async def test_second_broker_with_the_same_id_is_refused(zk_connect: str, open_session: OpenSession) -> None:
    first, second = await open_session(zk_connect), await open_session(zk_connect, timeout_ms=1000)
    broker_epoch = await register_once(first, BROKER)
    started = time.monotonic()
    with pytest.raises(DuplicateBrokerId, match=r"broker\.id 1 .* 127\.0\.0\.1:9092"):
        await register_once(second, replace(BROKER, port=9093, uuid="folder-2"))
    assert second.timeout_s <= time.monotonic() - started < second.timeout_s + 3
    assert (await live_brokers(first))[1].broker_epoch == broker_epoch


async def test_broker_id_is_free_again_when_its_holder_goes_while_another_waits(
    zk_connect: str, open_session: OpenSession
) -> None:
    first, second = ZkSession(zk_connect), await open_session(zk_connect)
    await first.start(10)
    before = await register_once(first, BROKER)
    waiting = asyncio.create_task(register_once(second, replace(BROKER, uuid="folder-2")))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    await first.close()
    after = await asyncio.wait_for(waiting, 3)
    assert after > before


async def test_restarted_broker_takes_over_from_its_earlier_life_at_once(
    zk_connect: str, open_session: OpenSession
) -> None:
    earlier, later = await open_session(zk_connect), await open_session(zk_connect)
    before = await register_once(earlier, BROKER)
    started = time.monotonic()
    after = await register_once(later, replace(BROKER, port=9999))
    assert time.monotonic() - started < earlier.timeout_s / 2
    assert after == before + 1
    data, stat = await later.get("/brokers/ids/1")
    assert stat.ephemeral_owner == later.session_id
    assert json.loads(data)["port"] == 9999


async def test_znode_of_our_own_earlier_session_is_replaced_at_once(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZOOKEEPER-2985: the old ephemeral may outlive its session. Without a uuid, only the session id tells that it is ours."""
    earlier, later = await open_session(zk_connect), await open_session(zk_connect)
    before = await register_once(earlier, replace(BROKER, uuid=""))
    monkeypatch.setattr(later._life, "own_session_ids", {earlier.session_id, later.session_id})
    started = time.monotonic()
    after = await register_once(later, replace(BROKER, uuid=""))
    assert time.monotonic() - started < later.timeout_s / 2
    assert after == before + 1


async def test_broker_that_gave_up_a_session_which_lived_on_registers_anew(
    zk_connect: str, open_session: OpenSession
) -> None:
    session = await open_session(zk_connect)
    before = await register_once(session, BROKER)
    after = await register_once(session, BROKER)
    assert after == before + 1


async def test_registration_whose_answer_was_lost_is_recognised(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    lose_answers_of_multi(session, monkeypatch)
    broker_epoch = await register_once(session, BROKER)
    live = await live_brokers(session)
    assert live[1].broker_epoch == broker_epoch == 1


async def test_fenced_broker_is_gone_at_once_and_may_register_anew(zk_connect: str, open_session: OpenSession) -> None:
    controller, broker = await open_session(zk_connect), await open_session(zk_connect)
    broker_epoch = await register_once(broker, BROKER)
    term = await won(controller, 2)
    fenced_epoch = await fence(controller, term, 1, broker_epoch)
    assert fenced_epoch == broker_epoch + 1
    assert await live_brokers(controller) == {}
    data, stat = await controller.get("/brokers/epochs/1")
    assert (BrokerEpochZnode.decode(1, data).state, stat.version) == (BrokerState.FENCED, fenced_epoch)
    assert await fence(controller, term, 1, broker_epoch) == fenced_epoch
    again = await register_once(broker, BROKER)
    assert again == fenced_epoch + 1
    with pytest.raises(StaleBrokerEpoch):
        await fence(controller, term, 1, broker_epoch)
    assert list(await live_brokers(controller)) == [1]


async def test_broker_whose_session_ended_can_still_be_fenced(zk_connect: str, open_session: OpenSession) -> None:
    controller, broker = await open_session(zk_connect), ZkSession(zk_connect)
    await broker.start(10)
    broker_epoch = await register_once(broker, BROKER)
    await broker.close()
    term = await won(controller, 2)
    assert await fence(controller, term, 1, broker_epoch) == broker_epoch + 1


async def test_replaced_controller_can_fence_nobody(zk_connect: str, open_session: OpenSession) -> None:
    old, new = await open_session(zk_connect), await open_session(zk_connect)
    broker_epoch = await register_once(old, BROKER)
    old_term = await won(old, 1)
    assert isinstance(await take_over(new, 2, 1, dead=OtherController(1, old_term.epoch)), ControllerTerm)
    with pytest.raises(StaleControllerEpoch):
        await fence(old, old_term, 1, broker_epoch)
    assert list(await live_brokers(old)) == [1]


async def test_watchers_of_the_broker_list_are_told(zk_connect: str, open_session: OpenSession) -> None:
    watcher, broker = await open_session(zk_connect), ZkSession(zk_connect)
    await broker.start(10)
    seen: list[list[str]] = []
    watch = ChildrenWatch(watcher, "/brokers/ids", seen.append)
    await watch.start()
    await eventually(lambda: seen == [[]])
    await register_once(broker, BROKER)
    await eventually(lambda: seen[-1] == ["1"])
    await broker.close()
    await eventually(lambda: seen[-1] == [])
    await watch.stop()


async def test_garbage_in_the_broker_list_is_left_out(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    await register_once(session, BROKER)
    await session.create("/brokers/ids/2", b"\xff garbage")
    await session.create("/brokers/ids/three", b"{}")
    assert list(await live_brokers(session)) == [1]


async def test_whoever_asks_first_makes_up_cluster_id_and_secret(zk_connect: str, open_session: OpenSession) -> None:
    sessions = [await open_session(zk_connect) for _ in range(3)]
    ids = await asyncio.gather(*map(cluster_id, sessions))
    secrets = await asyncio.gather(*map(cluster_secret, sessions))
    assert len(set(ids)) == 1
    uuid_from_text(ids[0])
    assert len(set(secrets)) == 1
    assert len(bytes.fromhex(secrets[0])) == 32


async def test_race_for_controller_has_one_winner_and_epochs_without_gaps(
    zk_connect: str, open_session: OpenSession
) -> None:
    sessions = [await open_session(zk_connect) for _ in range(5)]
    epochs = []
    for _ in range(4):
        results = await asyncio.gather(*(elect(session, broker_id, 1) for broker_id, session in enumerate(sessions)))
        winners = [broker_id for broker_id, result in enumerate(results) if isinstance(result, ControllerTerm)]
        assert len(winners) == 1
        term = results[winners[0]]
        assert isinstance(term, ControllerTerm)
        others = [result for result in results if result is not term]
        assert others == [OtherController(winners[0], term.epoch)] * 4
        data, stat = await sessions[0].get("/controller")
        assert ControllerZnode.decode(data).broker_id == winners[0]
        assert stat.ephemeral_owner == sessions[winners[0]].session_id
        epochs.append(term.epoch)
        await resign(sessions[winners[0]], term)
    assert epochs == [1, 2, 3, 4]


async def test_dead_controller_is_replaced_without_waiting_for_its_session(
    zk_connect: str, open_session: OpenSession
) -> None:
    sessions = [await open_session(zk_connect) for _ in range(4)]
    dead_term = await won(sessions[0], 0)
    dead = OtherController(0, dead_term.epoch)
    results = await asyncio.gather(*(take_over(sessions[i], i, 1, dead=dead) for i in (1, 2, 3)))
    terms = [result for result in results if isinstance(result, ControllerTerm)]
    assert [term.epoch for term in terms] == [2]
    winner = 1 + next(i for i, result in enumerate(results) if isinstance(result, ControllerTerm))
    assert [result for result in results if isinstance(result, OtherController)] == [OtherController(winner, 2)] * 2
    with pytest.raises(StaleControllerEpoch):
        await fenced_multi(sessions[0], dead_term, [Create("/zombie")])
    assert await sessions[0].exists("/zombie") is None
    await resign(sessions[0], dead_term)
    assert await elect(sessions[0], 0, 1) == OtherController(winner, 2)


async def test_election_whose_answer_was_lost_is_recognised(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    lose_answers_of_multi(session, monkeypatch)
    term = await won(session, 1)
    assert term.epoch == 1
    await fenced_multi(session, term, [Create("/written")])


async def test_restarted_controller_replaces_its_own_earlier_life(zk_connect: str, open_session: OpenSession) -> None:
    earlier, later = await open_session(zk_connect), await open_session(zk_connect)
    before = await won(earlier, 1)
    after = await won(later, 1)
    assert after.epoch == before.epoch + 1
    with pytest.raises(StaleControllerEpoch):
        await fenced_multi(earlier, before, [Create("/zombie")])


async def test_copy_of_a_data_folder_is_refused_while_the_process_of_the_original_answers(
    zk_connect: str, open_session: OpenSession
) -> None:
    original, copy = await open_session(zk_connect), await open_session(zk_connect)
    epoch = await register_once(original, BROKER)
    asked: list[BrokerZnode] = []
    answers = True

    async def still_runs(other: BrokerZnode) -> bool:
        asked.append(other)
        return answers

    async def register_copy() -> int:
        broker = replace(BROKER, port=9093)
        return await register(copy, broker, incarnation=uuid.uuid4().hex, boot_id="boot-1", still_runs=still_runs)

    with pytest.raises(DuplicateBrokerId, match=r"broker\.id 1 .* 127\.0\.0\.1:9092 .* copy"):
        await register_copy()
    assert asked == [replace(BROKER, broker_epoch=epoch)]
    assert (await live_brokers(original))[1].broker_epoch == epoch
    answers = False
    assert await register_copy() > epoch
