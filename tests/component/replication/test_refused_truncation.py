"""A follower that is in sync does not truncate committed records, whatever its leader says."""

import pytest

from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import LEADER, Cluster
from tests.support.waiting import eventually

ONE = TopicPartition("one", 0)


async def leader_loses_committed_records(cluster: Cluster) -> None:
    """Its log is shorter than what was committed, as after a restart with a copy of its folder."""
    await cluster.create(ONE)
    cluster.leader.append(ONE, batches=5)
    await cluster.quiet()
    cluster.leader.append(ONE)  # the answer to its fetch brings the follower the high watermark
    await cluster.quiet()
    assert cluster.follower.partition(ONE).high_watermark >= 5
    leader = cluster.leader.partition(ONE)
    leader.log.truncate_to(2)
    leader.high_watermark = 2


async def test_in_sync_follower_keeps_committed_records_that_its_leader_lacks(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await leader_loses_committed_records(cluster)
    cluster.decide(ONE)
    await cluster.tell(cluster.leader, ONE)
    await cluster.tell(cluster.follower, ONE)
    follower = cluster.follower.partition(ONE)
    await eventually(lambda: follower.refuses_leader)
    assert follower.log.log_end_offset == 6
    assert "a leader lacks committed records and is not followed" in caplog.text
    # Another leader epoch, in which it is not in sync: whoever decided that knew what is lost.
    cluster.decide(ONE)
    cluster.states[ONE].isr = [LEADER]
    await cluster.tell(cluster.leader, ONE)
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: follower.log.log_end_offset == 2)
    assert not follower.refuses_leader


async def test_uncommitted_records_are_truncated_as_ever(cluster: Cluster) -> None:
    await leader_loses_committed_records(cluster)
    follower = cluster.follower.partition(ONE)
    follower.high_watermark = 2
    cluster.decide(ONE)
    await cluster.tell(cluster.leader, ONE)
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: follower.log.log_end_offset == 2)
    assert not follower.refuses_leader
