"""Orders of the controller that come late."""

import asyncio
from pathlib import Path

from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.data_folder.lost_partitions import Loss, Lost
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.control import PartitionState, StopReplicaPart, TopicConfig, UpdateMetadataRequest
from ottla.wire.log_layout import HIGH_WATERMARKS
from ottla.wire.names import TopicPartition
from ottla.wire.records import encode_batch
from tests.component.replication.brokers import Cluster
from tests.support.descriptors import few_descriptors

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


async def test_partitions_that_come_together_are_spread_over_the_data_folders(tmp_path: Path) -> None:
    config = LogConfig()
    log_dirs = [
        LogDir.open(tmp_path / name, broker_id=1, cluster_id="c", config_for=lambda _: config) for name in "abc"
    ]
    partitions = Partitions(1, log_dirs, config, 1, PartitionEvents())
    for first, together in ((0, 2), (2, 7)):
        states = [
            PartitionState("topic", "id", number, 1, 0, [1], [1], 0, 1, []) for number in range(first, first + together)
        ]
        assert await partitions.apply(states, []) == {}
    assert [len(log_dir.logs) for log_dir in log_dirs] == [3, 3, 3]
    await partitions.close()


async def test_what_others_know_of_a_later_epoch_ends_leadership_and_what_they_do_not_know_does_not(
    tmp_path: Path,
) -> None:
    config = LogConfig()
    log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda _: config)
    partitions = Partitions(1, [log_dir], config, 1, PartitionEvents())
    names = ["replaced", "same", "new", "again"]
    led = [PartitionState(name, f"id-{name}", 0, 1, 3, [1, 2], [1], 0, 1, []) for name in names]
    assert await partitions.apply(led, []) == {}
    known = [("replaced", "id-replaced", 4), ("same", "id-same", 3), ("again", "another id", 0)]
    topics = [TopicConfig(name, topic_id, {}) for name, topic_id, _ in known]
    states = [PartitionState(name, topic_id, 0, 2, epoch, [1, 2], [2], 1, 1, []) for name, topic_id, epoch in known]
    view = ClusterView("c")
    view.update(UpdateMetadataRequest(2, 2, 1, True, [], topics, states, []))
    replaced = partitions.step_down_where_replaced(view)
    assert sorted(where.topic for where in replaced) == ["again", "replaced"]
    assert sorted(one.where.topic for one in partitions if one.is_leader) == ["new", "same"]
    assert await partitions.apply(led[:1], []) == {}
    assert not partitions.leads(TopicPartition("replaced", 0)), "an order from before it was replaced came late"
    now = PartitionState("replaced", "id-replaced", 0, 1, 5, [1, 2], [1, 2], 2, 1, [])
    assert await partitions.apply([now], []) == {}
    assert partitions.leads(TopicPartition("replaced", 0))
    await partitions.close()


async def test_partition_whose_log_has_no_descriptors_is_taken_when_there_are_some(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda _: LogConfig())
    partitions = Partitions(1, [log_dir], LogConfig(), 1, PartitionEvents())
    postponed: list[int] = []
    partitions.on_postponed = lambda: postponed.append(1)
    states = [PartitionState("topic", "id", number, 1, 0, [1], [1], 0, 1, []) for number in range(3)]
    await asyncio.to_thread(int)  # threads are there already
    with few_descriptors():
        assert await partitions.apply(states, [], 7) == {}, "the controller need not look for others"
        assert not await partitions.apply_postponed()
    assert postponed
    assert len(partitions) == 0
    await partitions.stop([StopReplicaPart("topic", "id", 2, 0, True)])
    assert await partitions.apply_postponed()
    assert sorted(partition.where.partition for partition in partitions if partition.is_leader) == [0, 1]
    partitions.step_down_all()
    with few_descriptors():
        await partitions.apply([states[2]], [], 7)
    partitions.step_down_all()
    assert await partitions.apply_postponed()
    assert len(partitions) == 2, "what was said in an earlier life is forgotten"
    await partitions.close()


async def test_order_to_delete_an_earlier_topic_leaves_a_postponed_partition_of_the_same_name(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda _: LogConfig())
    partitions = Partitions(1, [log_dir], LogConfig(), 1, PartitionEvents())
    await asyncio.to_thread(int)  # threads are there already
    with few_descriptors():
        assert await partitions.apply([PartitionState("one", "new", 0, 1, 0, [1], [1], 0, 1, [])], [], 7) == {}
    await partitions.stop([StopReplicaPart("one", "old", 0, 5, True)])
    assert partitions.told_in(7) == {ONE}
    assert await partitions.apply_postponed()
    assert partitions.leads(ONE)
    await partitions.close()


async def test_log_that_cannot_be_emptied_to_be_copied_anew_keeps_no_other_partition_waiting(tmp_path: Path) -> None:
    """Before: the whole order failed, the controller sent it again for ever, and no later order reached this broker."""

    def open_all() -> tuple[LogDir, Partitions]:
        log_dir = LogDir.open(tmp_path, broker_id=1, cluster_id="c", config_for=lambda _: LogConfig())
        return log_dir, Partitions(1, [log_dir], LogConfig(), 1, PartitionEvents())

    def state(where: TopicPartition, leader: int, isr: list[int], epoch: int) -> PartitionState:
        return PartitionState(where.topic, f"id-{where}", 0, leader, epoch, [1, 2], isr, epoch, 1, [])

    two = TopicPartition("two", 0)
    log_dir, partitions = open_all()
    assert await partitions.apply([state(ONE, 1, [1], 0), state(two, 1, [1], 0)], [], 1) == {}
    for partition in partitions:
        for _ in range(10):
            partition.log.append_as_leader(memoryview(encode_batch([b"x"], timestamps=0)), 0, 0)
    log_dir.checkpoint_high_watermarks({ONE: 10, two: 10})
    await partitions.close()
    log_dir, partitions = open_all()
    log_dir.lost.add({ONE: Lost(Loss.START, 10)})
    in_the_way = tmp_path / f"{HIGH_WATERMARKS}.tmp"
    in_the_way.mkdir()
    failed = await partitions.apply([state(ONE, 2, [2], 1), state(two, 1, [1], 1)], [], 2)
    assert list(failed) == [ONE]
    assert ONE in log_dir.lost.losses, "it is told again at the next registration"
    assert partitions.leads(two)
    assert partitions.told_in(2) == {ONE, two}
    in_the_way.rmdir()
    await partitions.close()
