"""A fetch names what has changed, and its answer has what there is to say: however many partitions are followed."""

import logging
import time
from dataclasses import replace

import pytest

from ottla.broker.replication import followed
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import FETCH_WAIT_MS, Cluster, turns
from tests.support.logs import read_all
from tests.support.machine import scaled
from tests.support.waiting import eventually

MANY = [TopicPartition("many", number) for number in range(50)]
ONE, OTHER = TopicPartition("one", 0), TopicPartition("other", 0)
REST_S = 0.2


@pytest.fixture
def long_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose fetch failed is left alone for so long that it shows."""
    monkeypatch.setattr(followed, "FIRST_PARTITION_RETRY_S", REST_S)
    monkeypatch.setattr(followed, "LAST_PARTITION_RETRY_S", REST_S)


def copied(cluster: Cluster, where: TopicPartition) -> bool:
    """Whether the follower has all that the leader has, and knows all that is committed."""
    ours, theirs = cluster.follower.partition(where), cluster.leader.partition(where)
    return read_all(ours.log) == read_all(theirs.log) and ours.high_watermark == theirs.log.log_end_offset


async def test_a_fetch_with_nothing_new_names_no_partition_and_an_append_makes_one_be_answered_and_named(
    cluster: Cluster,
) -> None:
    await cluster.create(*MANY)
    line = cluster.follower.line
    assert [request.since_last for request in line.requests] == [False, True]
    assert line.named == [MANY, []]
    assert line.told == [MANY]

    cluster.leader.append(MANY[7])
    await turns()
    assert line.told[1:] == [[MANY[7]]]
    assert line.named[2:] == [[MANY[7]]]
    await cluster.quiet()
    assert copied(cluster, MANY[7])
    assert line.told[2:] == [[MANY[7]]], "what is committed, and only there"
    assert line.named[3:] == [[]]


async def test_a_partition_that_is_followed_from_now_on_is_named_alone_and_at_once(cluster: Cluster) -> None:
    await cluster.create(*MANY)
    line = cluster.follower.line
    began = time.monotonic()
    await cluster.create(ONE)
    assert line.named == [MANY, [], [ONE]]
    assert time.monotonic() - began < FETCH_WAIT_MS / 1000, "the fetch that waited did not keep it"
    cluster.leader.append(ONE)
    await eventually(lambda: copied(cluster, ONE))


async def test_over_a_new_connection_all_is_named_at_once(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    cluster.follower.line.cut()
    await eventually(lambda: len(cluster.follower.lines) == 2)
    await cluster.quiet()
    assert not cluster.follower.line.requests[0].since_last
    assert cluster.follower.line.named == [[ONE, OTHER], []]
    assert [response for response in cluster.follower.line.responses if isinstance(response, OttlaError)] == []


async def test_in_a_new_life_all_is_named_at_once(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    line = cluster.follower.line
    cluster.follower.identity = replace(cluster.follower.identity, broker_epoch=101)
    cluster.leader.append(ONE)  # ends the wait of what the former life has asked
    await cluster.quiet()
    assert [(request.broker_epoch, request.since_last) for request in line.requests[1:3]] == [(100, True), (101, False)]
    assert line.named[2] == [ONE, OTHER]
    assert [response for response in line.responses if isinstance(response, OttlaError)] == []
    assert cluster.leader.leading(OTHER).followers[cluster.follower.id].broker_epoch == 101


async def test_after_a_drop_appends_are_not_sent(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    line = cluster.follower.line
    await cluster.stop(cluster.follower, ONE)
    cluster.leader.append(OTHER)
    await turns()
    assert [(drop.topic, drop.partition) for drop in line.requests[2].dropped] == [ONE]
    await cluster.quiet()

    asked, told = len(line.requests), len(line.responses)
    cluster.leader.append(ONE)
    await turns()
    assert (len(line.requests), len(line.responses)) == (asked, told)
    assert cluster.leader.named_by(cluster.follower.id) == {OTHER}


async def test_what_comes_for_a_partition_that_was_just_dropped_is_not_taken(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    line = cluster.follower.line
    partition = cluster.follower.partition(ONE)
    line.held = True
    cluster.leader.append(ONE)
    await turns()
    await cluster.stop(cluster.follower, ONE)
    line.release()
    await turns()
    assert line.told[-1] == [ONE]
    assert partition.log.log_end_offset == 0
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: copied(cluster, ONE))


@pytest.mark.usefixtures("long_rests")
async def test_a_partition_that_the_leader_does_not_know_yet_is_named_again_after_a_rest_and_not_before(
    cluster: Cluster,
) -> None:
    await cluster.create(OTHER)
    line = cluster.follower.line
    cluster.decide(ONE)
    began = time.monotonic()
    await cluster.tell(cluster.follower, ONE)
    await turns(100)
    assert line.named == [[OTHER], [], [ONE], []], "the answer was an error, and nobody asks again at once"
    await eventually(lambda: line.named.count([ONE]) == 3)
    assert time.monotonic() - began > 2 * 0.8 * REST_S  # 0.8: rests are shortened and lengthened at random
    await turns()
    assert line.told.count([ONE]) == 3, "one answer each time that it was named"
    assert len(line.requests) < 25, "thousands, if it were asked for without a rest"

    await cluster.tell(cluster.leader, ONE)
    cluster.leader.append(ONE)
    await eventually(lambda: copied(cluster, ONE))


@pytest.mark.usefixtures("long_rests")
async def test_nothing_is_asked_while_all_partitions_are_left_alone(
    cluster: Cluster,
) -> None:
    cluster.decide(ONE)
    await cluster.tell(cluster.follower, ONE)
    await turns(100)
    line = cluster.follower.line
    assert line.named == [[ONE]]
    assert line.channel.in_flight == 0
    await cluster.tell(cluster.leader, ONE)
    cluster.leader.append(ONE)
    await eventually(lambda: copied(cluster, ONE))
    assert not any(request.since_last for request in line.requests[:1])
    assert all(request.since_last for request in line.requests[1:]), "the leader still knows the connection"


async def test_records_that_came_damaged_are_asked_for_again(cluster: Cluster) -> None:
    await cluster.create(ONE, OTHER)
    line = cluster.follower.line
    line.to_damage = {ONE}
    cluster.leader.append(ONE)
    cluster.leader.append(OTHER)
    await eventually(lambda: copied(cluster, OTHER) and line.named.count([ONE]) == 2)
    assert cluster.follower.partition(ONE).log.log_end_offset == 0
    assert cluster.leader.partition(ONE).high_watermark == 0
    line.to_damage = set()
    await eventually(lambda: copied(cluster, ONE))


async def test_a_follower_that_ends_before_its_leader_begins_goes_on_there(cluster: Cluster) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE)
    cluster.leader.append(ONE, batches=3)
    cluster.leader.partition(ONE).log.delete_records_before(2)
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: cluster.follower.partition(ONE).high_watermark == 3)
    ours, theirs = cluster.follower.partition(ONE).log, cluster.leader.partition(ONE).log
    assert (ours.log_start_offset, ours.log_end_offset) == (2, 3)
    assert read_all(ours, 2) == read_all(theirs, 2)


@pytest.mark.parametrize(("race_s", "told"), [(scaled(60.0), 0), (0.0, 1)])
async def test_a_leader_that_has_not_heard_yet_that_it_leads_is_told_at_info_only_if_that_lasts_and_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, race_s: float, told: int
) -> None:
    """A cluster whose topics come and go had two such lines a second: nobody needs to look at a race that ends by itself."""
    monkeypatch.setattr(followed, "RACE_S", race_s)
    caplog.set_level(logging.DEBUG, logger=followed.logger.name)
    cluster.decide(ONE)
    await cluster.tell(cluster.follower, ONE)

    def lines(level: int) -> int:
        return sum("cannot follow" in one.getMessage() and one.levelno == level for one in caplog.records)

    await eventually(lambda: lines(logging.DEBUG) + lines(logging.INFO) >= 4)
    assert lines(logging.INFO) == told
    await cluster.tell(cluster.leader, ONE)
    await eventually(lambda: ONE in cluster.leader.named_by(cluster.follower.identity.broker_id))
