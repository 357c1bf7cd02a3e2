"""What a leader remembers of a follower: of one life, over one connection, and only as long as it may be used."""

import asyncio
from dataclasses import replace

import pytest

from ottla.broker.replication.fetch_sessions import COMMITTED_DELAY_S
from ottla.broker.replication.state import UNKNOWN, Isr
from ottla.net.exchange import Answer
from ottla.wire.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InconsistentTopicId,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.wire.requests import FetchDrop, FetchPart, FetchRequest, FetchResponse
from tests.component.replication.brokers import LEADER, Cluster, turns
from tests.component.replication.line import Line
from tests.support.logs import read_all
from tests.support.machine import scaled
from tests.support.waiting import eventually

ONE, OTHER = TopicPartition("one", 0), TopicPartition("other", 0)
FOLLOWER, LIFE = 2, 100


def at(where: TopicPartition, offset: int, leader_epoch: int = 0) -> FetchPart:
    """A follower that has everything before ``offset``."""
    last_epoch = leader_epoch if offset else NO_EPOCH
    return FetchPart(where.topic, where.partition, offset, 1 << 20, leader_epoch, last_epoch, offset)


def begin(*parts: FetchPart, life: int = LIFE, wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(wait_ms, 1, 1 << 20, list(parts), FOLLOWER, life)


def go_on(*parts: FetchPart, life: int = LIFE, wait_ms: int = 0, drop: tuple[TopicPartition, ...] = ()) -> FetchRequest:
    dropped = tuple(FetchDrop(where.topic, where.partition) for where in drop)
    return FetchRequest(wait_ms, 1, 1 << 20, list(parts), FOLLOWER, life, since_last=True, dropped=dropped)


async def ask(line: Line, request: FetchRequest) -> list[tuple[str, int, int]]:
    """What is answered: topic, error code and size of each part."""
    return parts_of(await line.channel.request(request, 2.0))


def wait(line: Line) -> asyncio.Future[Answer]:
    """A fetch that waits for news."""
    return line.channel.send(go_on(wait_ms=10_000))


def parts_of(answer: Answer) -> list[tuple[str, int, int]]:
    assert isinstance(answer.message, FetchResponse)
    return [(part.topic, part.error_code, part.size) for part in answer.message.parts]


async def lead(cluster: Cluster, *partitions: TopicPartition) -> None:
    """The leader knows these, and no real follower does: the tests are the follower."""
    for where in partitions:
        cluster.decide(where)
    await cluster.tell(cluster.leader, *partitions)


# --- whose session it is ---------------------------------------------------------------------------------------------------


async def test_a_second_connection_of_a_follower_ends_what_it_fetched_over_the_first(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    first, second = cluster.leader.connect(FOLLOWER), cluster.leader.connect(FOLLOWER)
    await ask(first, begin(at(ONE, 0)))
    waiting = wait(first)
    await turns()
    assert not waiting.done()
    await ask(second, begin(at(ONE, 0)))
    await turns()
    assert parts_of(waiting.result()) == []
    with pytest.raises(FetchSessionIdNotFound):
        await ask(first, go_on())
    assert await ask(second, go_on()) == [], "that the first one asked changes nothing"


async def test_an_older_life_cannot_take_the_session_over(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    first, second = cluster.leader.connect(FOLLOWER), cluster.leader.connect(FOLLOWER)
    await ask(first, begin(at(ONE, 0)))
    waiting = wait(first)
    with pytest.raises(StaleBrokerEpoch):
        await ask(second, begin(at(ONE, 0), life=LIFE - 1))
    await turns()
    assert not waiting.done()
    cluster.leader.append(ONE)
    await turns()
    assert [(topic, code) for topic, code, _ in parts_of(waiting.result())] == [("one", 0)]


async def test_another_life_must_begin_anew_over_the_same_connection(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    for life in (LIFE - 1, LIFE + 1):
        with pytest.raises(FetchSessionIdNotFound):
            await ask(line, go_on(life=life))
    await ask(line, begin(at(ONE, 0), life=LIFE + 1))
    assert cluster.leader.leading(ONE).followers[FOLLOWER].broker_epoch == LIFE + 1
    with pytest.raises(FetchSessionIdNotFound):
        await ask(line, go_on(life=LIFE))


async def test_a_follower_whose_session_was_taken_over_begins_anew_by_itself(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    await ask(cluster.leader.connect(FOLLOWER), begin())
    line = cluster.follower.line
    await eventually(lambda: line.named[-1] == [ONE, OTHER])
    assert [request.since_last for request in line.requests] == [False, True, True, False]
    assert isinstance(line.responses[-1], FetchSessionIdNotFound)
    cluster.leader.append(ONE)
    await eventually(lambda: cluster.follower.partition(ONE).high_watermark == 1)
    assert len(cluster.follower.lines) == 1


async def test_a_follower_in_its_next_life_names_everything_as_soon_as_it_is_told_to_follow(cluster: Cluster) -> None:
    """The last fetch of its former life waits at the leader: nobody waits for it."""
    await cluster.create(ONE, OTHER)
    follower = cluster.follower
    follower.partitions.step_down_all()
    follower.identity = replace(follower.identity, broker_epoch=LIFE + 1)
    await cluster.tell(follower, ONE, OTHER)
    await eventually(lambda: cluster.leader.leading(OTHER).followers[FOLLOWER].broker_epoch == LIFE + 1, scaled(2.0))
    assert follower.line.named[-1] == [ONE, OTHER]


# --- what is answered once -------------------------------------------------------------------------------------------------


async def test_a_partition_answered_with_an_error_is_not_answered_again_until_it_is_named_again(
    cluster: Cluster,
) -> None:
    line = cluster.leader.connect(FOLLOWER)
    assert await ask(line, begin(at(ONE, 0))) == [("one", UnknownTopicOrPartition.code, 0)]
    waiting = wait(line)
    await lead(cluster, ONE)
    cluster.leader.append(ONE)
    await turns(50)
    assert not waiting.done()
    answer = await ask(line, go_on(at(ONE, 0)))
    assert parts_of(waiting.result()) == []
    assert answer == [("one", 0, len(read_all(cluster.leader.partition(ONE).log)))]


async def test_a_partition_answered_with_records_is_not_answered_again_until_it_is_named_again(
    cluster: Cluster,
) -> None:
    await lead(cluster, ONE)
    cluster.leader.append(ONE)
    size = len(read_all(cluster.leader.partition(ONE).log))
    line = cluster.leader.connect(FOLLOWER)
    assert await ask(line, begin(at(ONE, 0))) == [("one", 0, size)]
    waiting = wait(line)
    cluster.leader.append(ONE)
    await turns(50)
    assert not waiting.done()
    assert await ask(line, go_on(at(ONE, 1))) == [("one", 0, size)]


async def test_an_error_that_did_not_fit_is_not_told_of_a_partition_that_was_named_again(cluster: Cluster) -> None:
    await lead(cluster, OTHER)
    cluster.leader.append(OTHER)
    line = cluster.leader.connect(FOLLOWER)
    full = begin(at(OTHER, 0), at(ONE, 0))
    full.max_bytes = 1
    assert [topic for topic, _, _ in await ask(line, full)] == ["other"]
    await lead(cluster, ONE)
    cluster.leader.append(ONE)
    assert [(topic, code) for topic, code, _ in await ask(line, go_on(at(OTHER, 1), at(ONE, 0)))] == [("one", 0)]


async def test_a_new_leader_epoch_is_told_once_to_a_follower_that_has_not_heard_of_it(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    waiting = wait(line)
    await turns()
    await lead(cluster, ONE)
    await turns()
    assert parts_of(waiting.result()) == [("one", FencedLeaderEpoch.code, 0)]
    waiting = wait(line)
    cluster.leader.append(ONE)
    await turns(50)
    assert not waiting.done()
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == UNKNOWN
    await ask(line, go_on(at(ONE, 0, leader_epoch=1)))
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == 0


async def test_a_follower_that_is_about_to_name_a_partition_is_not_told_again_and_again_what_is_committed(
    cluster: Cluster,
) -> None:
    await lead(cluster, ONE)
    cluster.leader.append(ONE)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    waiting = wait(line)
    await turns()
    cluster.leader.leading(ONE).settled(Isr((LEADER,), 9))  # the follower has left: all is committed
    cluster.leader.partition(ONE).advance()
    assert cluster.leader.partition(ONE).high_watermark == 1
    assert parts_of(await asyncio.wait_for(waiting, 2.0)) == [], (
        "it has that record on the way, with an older watermark"
    )
    waiting = wait(line)
    await asyncio.wait([waiting], timeout=3 * COMMITTED_DELAY_S)
    assert not waiting.done()
    behind = at(ONE, 1)
    behind.high_watermark = 0
    assert await ask(line, go_on(behind)) == [("one", 0, 0)], "it is told when it has named it"


# --- a topic that was deleted and created anew -----------------------------------------------------------------------------


async def recreate_at_leader(cluster: Cluster) -> None:
    """Deletes the topic and makes another one of the same name, in the same leader epoch, with as many records."""
    await cluster.stop(cluster.leader, ONE, delete=True)
    del cluster.states[ONE]
    await lead(cluster, ONE)
    cluster.leader.append(ONE)


async def test_a_place_in_a_deleted_topic_is_no_place_in_the_new_one_of_that_name(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    cluster.leader.append(ONE)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    await ask(line, go_on(at(ONE, 1)))
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == 1
    await recreate_at_leader(cluster)
    cluster.leader.append(ONE)
    assert await ask(line, go_on()) == [("one", NotLeaderOrFollower.code, 0)]
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == UNKNOWN
    assert cluster.leader.partition(ONE).high_watermark == 0
    assert await ask(line, go_on(at(ONE, 0), drop=(ONE,))) == [
        ("one", 0, len(read_all(cluster.leader.partition(ONE).log)))
    ]


async def test_a_follower_takes_nothing_of_a_deleted_topic_into_the_new_one_of_that_name(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    line = cluster.follower.line
    line.held = True
    cluster.leader.append(ONE, batches=2)
    await turns()
    await cluster.stop(cluster.follower, ONE, delete=True)
    await recreate_at_leader(cluster)
    await cluster.tell(cluster.follower, ONE)
    line.release()
    await eventually(lambda: cluster.follower.partition(ONE).high_watermark == 1)
    assert line.told[1] == [ONE], "of the old one, and it came when the new one was followed already"
    fetches = [request for request in line.requests if request.max_bytes]
    assert [(drop.topic, drop.partition) for drop in fetches[2].dropped] == [ONE]
    assert line.named[2] == [ONE]
    assert read_all(cluster.follower.partition(ONE).log) == read_all(cluster.leader.partition(ONE).log)


async def test_records_of_a_deleted_topic_are_no_copies_of_the_new_one_of_that_name(cluster: Cluster) -> None:
    await cluster.create(ONE)
    cluster.leader.append(ONE)
    await cluster.quiet()
    await cluster.stop(cluster.leader, ONE, delete=True)
    del cluster.states[ONE]
    await lead(cluster, ONE)  # the follower has not heard of it
    cluster.leader.append(ONE, batches=3)
    line = cluster.follower.line
    await eventually(lambda: InconsistentTopicId.code in line.errors)
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == UNKNOWN
    assert cluster.leader.partition(ONE).high_watermark == 0


# --- a leader that is not what it was ----------------------------------------------------------------------------------------


async def test_a_leader_that_leads_again_in_the_same_epoch_asks_where_its_follower_is(cluster: Cluster) -> None:
    await lead(cluster, ONE)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    cluster.leader.partitions.step_down_all()
    await cluster.tell(cluster.leader, ONE)
    assert await ask(line, go_on()) == [("one", NotLeaderOrFollower.code, 0)]
    await ask(line, go_on(at(ONE, 0)))
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == 0


async def test_a_follower_past_the_end_of_its_leader_that_has_nothing_begins_where_the_leader_does(
    cluster: Cluster,
) -> None:
    cluster.decide(ONE)
    await cluster.tell(cluster.leader, ONE)
    await cluster.tell(cluster.follower, ONE)
    cluster.follower.partition(ONE).log.truncate_fully_and_start_at(100)
    cluster.leader.append(ONE)
    await eventually(lambda: cluster.follower.partition(ONE).log.log_end_offset == 1)


# --- memory ----------------------------------------------------------------------------------------------------------------


async def test_a_follower_says_that_it_dropped_its_last_partition(cluster: Cluster) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE, delete=True)
    await cluster.stop(cluster.leader, ONE, delete=True)
    await eventually(lambda: cluster.leader.named_by(FOLLOWER) == set())


async def test_what_is_dropped_is_forgotten(cluster: Cluster) -> None:
    await lead(cluster, ONE, OTHER)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0), at(OTHER, 0)))
    assert cluster.leader.named_by(FOLLOWER) == {ONE, OTHER}
    cluster.leader.append(ONE)
    assert await ask(line, go_on(drop=(ONE,))) == [], "there was news of it, and nobody wants it any more"
    assert cluster.leader.named_by(FOLLOWER) == {OTHER}
    await ask(line, go_on(drop=(OTHER, ONE)))
    assert cluster.leader.named_by(FOLLOWER) == set()
    session = cluster.leader.sessions[FOLLOWER]
    cluster.leader.append(ONE)
    cluster.leader.append(OTHER)
    assert (session._cached, session._news, session._unaware) == ({}, {}, {})


@pytest.mark.parametrize("same_line", [True, False])
async def test_what_was_named_before_is_forgotten_when_a_follower_begins_anew(
    cluster: Cluster, same_line: bool
) -> None:
    await lead(cluster, ONE, OTHER)
    line = cluster.leader.connect(FOLLOWER)
    await ask(line, begin(at(ONE, 0)))
    last = cluster.leader.sessions[FOLLOWER]
    waiting = wait(line)
    await turns()
    await ask(line if same_line else cluster.leader.connect(FOLLOWER), begin(at(OTHER, 0)))
    assert cluster.leader.named_by(FOLLOWER) == {OTHER}
    assert len(cluster.leader.sessions) == 1
    cluster.leader.append(ONE)
    await turns()
    assert parts_of(waiting.result()) == []
    assert (last._cached, last._news, last._unaware) == ({}, {}, {})
    assert cluster.leader.fetch_sessions.waiting == 0


async def test_two_followers_of_a_partition_are_forgotten_one_by_one(cluster: Cluster) -> None:
    await cluster.create(ONE)
    other = cluster.leader.connect(3)
    await other.channel.request(FetchRequest(0, 1, 1 << 20, [at(ONE, 0)], 3, LIFE), 2.0)
    assert cluster.leader.named_by(2) == cluster.leader.named_by(3) == {ONE}
    await other.channel.request(FetchRequest(0, 1, 1 << 20, [], 3, LIFE), 2.0)
    assert (cluster.leader.named_by(2), cluster.leader.named_by(3)) == ({ONE}, set())
