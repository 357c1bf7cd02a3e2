"""A follower of an idle partition does not lag the moment that records come, unless it has stopped to fetch."""

import time

from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import Cluster, turns

ONE, OTHER = TopicPartition("one", 0), TopicPartition("other", 0)
FOLLOWER = 2
LAG_S = 10.0
HOUR_S = 3600.0


async def idle(cluster: Cluster) -> float:
    """A partition with a record that the follower has named as its own, and the time of that."""
    await cluster.create(ONE, OTHER)
    cluster.leader.append(ONE)
    await cluster.quiet()
    assert cluster.leader.leading(ONE).followers[FOLLOWER].log_end_offset == 1
    return time.monotonic()


def laggards(cluster: Cluster, now: float) -> frozenset[int]:
    """As the isr loop asks for them."""
    return cluster.leader.leading(ONE).laggards(cluster.leader.partition(ONE).log.log_end_offset, now, LAG_S)


async def test_a_follower_that_fetches_does_not_lag_when_a_record_comes_after_an_idle_hour(cluster: Cluster) -> None:
    now = await idle(cluster) + HOUR_S
    cluster.leader.sessions[FOLLOWER].fetched_at = now - 0.3
    assert laggards(cluster, now) == frozenset()
    cluster.leader.append(ONE)
    assert laggards(cluster, now) == frozenset()
    assert laggards(cluster, now - 0.3 + LAG_S + 0.1) == {FOLLOWER}, "if it does not fetch that record either"


async def test_a_fetch_that_does_not_name_a_partition_counts_for_it(cluster: Cluster) -> None:
    then = await idle(cluster)
    cluster.leader.append(OTHER)
    await cluster.quiet()
    assert cluster.leader.leading(ONE).followers[FOLLOWER].caught_up_at < then
    cluster.leader.append(ONE)
    assert cluster.leader.leading(ONE).followers[FOLLOWER].caught_up_at > then


async def test_a_follower_that_stopped_to_fetch_lags_as_soon_as_a_record_comes(cluster: Cluster) -> None:
    now = await idle(cluster) + HOUR_S
    assert laggards(cluster, now) == frozenset(), "it has all that there is"
    cluster.leader.append(ONE)
    assert laggards(cluster, now) == {FOLLOWER}


async def test_a_follower_that_was_given_records_and_goes_on_without_them_lags(cluster: Cluster) -> None:
    now = await idle(cluster)
    cluster.follower.line.held = True
    cluster.leader.append(ONE)
    await turns()
    for second in range(1, 13):
        cluster.leader.sessions[FOLLOWER].fetched_at = now + second  # as if it fetched other partitions all the time
        cluster.leader.append(ONE)
        cluster.leader.append(OTHER)
    assert laggards(cluster, now + 9) == frozenset()
    assert laggards(cluster, now + 12) == {FOLLOWER}


async def test_a_follower_that_goes_on_before_its_records_could_be_given_lags(cluster: Cluster) -> None:
    now = await idle(cluster)
    for second in range(1, 13):  # all in one turn: none of it has left
        cluster.leader.sessions[FOLLOWER].fetched_at = now + second
        cluster.leader.append(ONE)
    assert laggards(cluster, now + 9) == frozenset()
    assert laggards(cluster, now + 12) == {FOLLOWER}


async def test_a_follower_that_takes_what_comes_does_not_lag(cluster: Cluster) -> None:
    await idle(cluster)
    for _ in range(3):
        cluster.leader.append(ONE)
        await turns()
    assert laggards(cluster, time.monotonic() + HOUR_S) == frozenset(), "it has all that there is"
