"""Orders of the controller that come late."""

from ottla.wire.control import StopReplicaPart
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import Cluster

ONE = TopicPartition("one", 0)


async def test_order_to_delete_that_is_older_than_what_the_broker_was_told_since_is_ignored(cluster: Cluster) -> None:
    """The partition went away and came back; the order to delete it was still on its way."""
    await cluster.create(ONE)
    cluster.leader.append(ONE)
    await cluster.quiet()
    partition = cluster.leader.partition(ONE)
    late = StopReplicaPart(ONE.topic, partition.log.topic_id, 0, partition.leader_epoch - 1, True)
    await cluster.leader.partitions.stop([late])
    assert cluster.leader.partition(ONE).log.log_end_offset == 1
    assert partition.log.folder.exists()
    now = StopReplicaPart(ONE.topic, partition.log.topic_id, 0, partition.leader_epoch, True)
    await cluster.leader.partitions.stop([now])
    assert cluster.leader.partitions.get(*ONE) is None
    assert not partition.log.folder.exists()
