"""Topics, partition states and producer ids on a live server."""

import asyncio
import time
import uuid

import pytest

from ottla.wire.errors import (
    InvalidTopic,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.names import TopicPartition
from ottla.zk.election import ControllerTerm, OtherController, elect, take_over
from ottla.zk.errors import BadVersion, ConnectionLost, NoNode
from ottla.zk.membership import ensure_persistent_paths, register
from ottla.zk.metadata import (
    LoadedTopic,
    PartitionStateChange,
    load_topic,
    load_topics,
    next_producer_id_block,
    set_topic_config,
    write_isr,
    write_partition_states,
)
from ottla.zk.session.session import ZkSession
from ottla.zk.topics import create_topic, delete_topic, mark_for_deletion
from ottla.zk.znodes.brokers import BrokerZnode
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode
from ottla.zk.znodes.uuids import uuid_to_text
from tests.conftest import OpenSession

pytestmark = pytest.mark.cluster


async def become_controller(session: ZkSession, broker_id: int = 1) -> ControllerTerm:
    await ensure_persistent_paths(session)
    term = await elect(session, broker_id, 1)
    assert isinstance(term, ControllerTerm)
    return term


async def usurp(session: ZkSession, term: ControllerTerm, broker_id: int = 2) -> ControllerTerm:
    taken = await take_over(session, broker_id, 1, dead=OtherController(1, term.epoch))
    assert isinstance(taken, ControllerTerm)
    return taken


def plan(partitions: int) -> tuple[TopicZnode, dict[int, PartitionStateZnode]]:
    topic = TopicZnode(dict.fromkeys(range(partitions), (1, 2, 3)), uuid_to_text(uuid.uuid4()))
    return topic, {number: PartitionStateZnode(1, 0, 1, (1, 2, 3)) for number in range(partitions)}


async def create(session: ZkSession, term: ControllerTerm, name: str, partitions: int = 1) -> LoadedTopic:
    topic, states = plan(partitions)
    return await create_topic(session, term, name, topic, states=states, config={"retention.ms": "1"})


def change(name: str, partition: int, version: int, **broker_epochs: int) -> PartitionStateChange:
    epochs = {int(key[1:]): epoch for key, epoch in broker_epochs.items()}
    return PartitionStateChange(TopicPartition(name, partition), PartitionStateZnode(2, 1, 1, (2, 3)), version, epochs)


async def test_created_topic_is_loaded_as_it_was_written(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    created = await create(session, term, "events", 3)
    loaded = await load_topics(session)
    assert loaded.topics == {"events": created}
    assert (loaded.deleting, loaded.malformed) == (frozenset(), {})
    assert await session.children("/brokers/topics/events/partitions") == ["0", "1", "2"]


async def test_topic_is_created_once(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    topic, states = plan(2)
    created = await create_topic(session, term, "events", topic, states=states, config={})
    # the same topic id: a call whose answer was lost, repeated
    assert await create_topic(session, term, "events", topic, states=states, config={}) == created
    with pytest.raises(TopicAlreadyExists):
        await create(session, term, "events")
    with pytest.raises(InvalidTopic):
        await create(session, term, "../events")


async def test_large_topic_is_invisible_until_it_is_complete(
    zk_connect: str, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    name = "x" * 200
    really, left = session.multi, 2

    async def multi(operations):
        nonlocal left
        if left == 0:
            raise ConnectionLost("the controller died here")
        left -= 1
        return await really(operations)

    monkeypatch.setattr(session, "multi", multi)
    with pytest.raises(ConnectionLost):
        await create(session, term, name, 2000)
    monkeypatch.undo()
    assert await session.exists(TopicZnode.path(name)) is not None
    loaded = await load_topics(session)
    assert (loaded.topics, loaded.malformed) == ({}, {})
    # the next creation of that name clears the remains away
    created = await create(session, term, name, 2000)
    assert len(created.states) == 2000
    assert await load_topic(session, name) == created


async def test_thousand_partitions_load_faster_than_one_by_one(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    for i in range(10):
        await create(session, term, f"topic-{i}", 100)
    quicker = False
    for _ in range(3):  # machines are shared: of several comparisons one is not disturbed
        started = time.monotonic()
        loaded = await load_topics(session)
        took_s = time.monotonic() - started
        assert sum(len(topic.states) for topic in loaded.topics.values()) == 1000
        started = time.monotonic()
        for i in range(10):
            for partition in range(100):
                await session.get(f"/brokers/topics/topic-{i}/partitions/{partition}/state")
        quicker = quicker or took_s < time.monotonic() - started
    assert quicker, "reads are not pipelined"


async def test_partition_states_are_written_with_a_result_each(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "events", 200)
    changes = [change("events", number, 0) for number in range(200)]
    changes[7] = change("events", 7, 5)
    changes.append(change("nothing", 0, 0))
    written = await write_partition_states(session, term, changes)
    assert isinstance(written.pop(TopicPartition("events", 7)), BadVersion)
    assert isinstance(written.pop(TopicPartition("nothing", 0)), NoNode)
    assert written == {TopicPartition("events", number): 1 for number in range(200) if number != 7}
    states = (await load_topic(session, "events")).states
    assert [states[number].version for number in (6, 7, 8)] == [1, 0, 1]
    assert states[6].state.leader == 2
    assert states[7].state.leader == 1


async def test_replaced_controller_can_write_nothing(zk_connect: str, open_session: OpenSession) -> None:
    old, new = await open_session(zk_connect), await open_session(zk_connect)
    old_term = await become_controller(old)
    await create(old, old_term, "events", 2)
    await usurp(new, old_term)
    before = await load_topics(old)
    written = await write_partition_states(old, old_term, [change("events", number, 0) for number in range(2)])
    assert [type(result) for result in written.values()] == [StaleControllerEpoch] * 2
    with pytest.raises(StaleControllerEpoch):
        await create(old, old_term, "other")
    with pytest.raises(StaleControllerEpoch):
        await set_topic_config(old, old_term, "events", {})
    with pytest.raises(StaleControllerEpoch):
        await mark_for_deletion(old, old_term, "events")
    with pytest.raises(StaleControllerEpoch):
        await delete_topic(old, old_term, "events")
    assert await load_topics(new) == before


async def test_state_that_relies_on_an_earlier_life_of_a_broker_is_refused(
    zk_connect: str, open_session: OpenSession
) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "events", 2)
    broker = BrokerZnode(2, "127.0.0.1", 9092, uuid="folder")
    epochs = []
    for life in ("first", "second"):
        epochs.append(await register(session, broker, incarnation=life, boot_id="boot"))
    stale, fresh = change("events", 0, 0, b2=epochs[0]), change("events", 1, 0, b2=epochs[1])
    written = await write_partition_states(session, term, [stale, fresh])
    assert isinstance(written[stale.partition], StaleBrokerEpoch)
    assert written[fresh.partition] == 1
    with pytest.raises(StaleBrokerEpoch):
        await write_isr(session, stale)
    with pytest.raises(BadVersion):
        await write_isr(session, fresh)
    assert await write_isr(session, change("events", 0, 0, b2=epochs[1])) == 1


async def test_deleted_topic_leaves_nothing_behind(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "events", 3)
    await create(session, term, "kept")
    await mark_for_deletion(session, term, "events")
    await mark_for_deletion(session, term, "events")
    assert (await load_topics(session)).deleting == {"events"}
    await delete_topic(session, term, "events")
    loaded = await load_topics(session)
    assert (set(loaded.topics), loaded.deleting) == ({"kept"}, frozenset())
    assert await session.exists("/config/topics/events") is None
    await delete_topic(session, term, "events")
    with pytest.raises(UnknownTopicOrPartition):
        await mark_for_deletion(session, term, "events")
    recreated = await create(session, term, "events")
    assert recreated.states[0].version == 0


async def test_half_deleted_topic_is_deleted_by_the_next_controller(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "events", 3)
    await mark_for_deletion(session, term, "events")
    await session.delete("/brokers/topics/events/partitions/1/state", 0)
    await session.delete("/brokers/topics/events/partitions/1", 0)
    next_term = await usurp(session, term)
    assert "events" in (await load_topics(session)).deleting
    await delete_topic(session, next_term, "events")
    assert await session.children("/brokers/topics") == []


async def test_topic_config_is_replaced(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "events")
    await set_topic_config(session, term, "events", {"max.message.bytes": "7"})
    assert (await load_topic(session, "events")).config == {"max.message.bytes": "7"}
    with pytest.raises(UnknownTopicOrPartition):
        await set_topic_config(session, term, "nothing", {})


async def test_garbage_topics_are_named_and_not_taken_for_deleted(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    term = await become_controller(session)
    await create(session, term, "good")
    await session.create("/brokers/topics/bad", b"garbage")
    await session.create("/brokers/topics/b@d", b"{}")
    await create(session, term, "half")
    await session.set("/brokers/topics/half/partitions/0/state", b'{"version":1}', 0)
    loaded = await load_topics(session)
    assert set(loaded.topics) == {"good"}
    assert set(loaded.malformed) == {"bad", "b@d", "half"}


async def test_producer_id_blocks_never_overlap(zk_connect: str, open_session: OpenSession) -> None:
    sessions = [await open_session(zk_connect) for _ in range(4)]
    await ensure_persistent_paths(sessions[0])
    blocks = await asyncio.gather(
        *(next_producer_id_block(session, broker_id) for broker_id, session in enumerate(sessions) for _ in range(5))
    )
    assert sorted(block.start for block in blocks) == [1000 * i for i in range(20)]
    assert all(len(block) == 1000 for block in blocks)
