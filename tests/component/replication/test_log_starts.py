"""Records that are deleted at the leader: followers hear of it, note it on disk, and tell so."""

from pathlib import Path

import pytest

from ottla.broker.replication.log_start_loop import LogStartLoop
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.admin import HIGH_WATERMARK
from ottla.wire.control import PartitionState, TopicConfig
from ottla.wire.log_layout import LOG_START_OFFSETS
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import Cluster
from tests.support.waiting import eventually

MANY = [TopicPartition("many", number) for number in range(50)]
ONE = MANY[7]


async def test_an_idle_follower_hears_of_a_deletion_and_tells_the_leader_when_it_is_on_disk(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.create(*MANY)
    cluster.leader.append(ONE, batches=5)
    await cluster.quiet()
    line = cluster.follower.line
    told, named = len(line.told), len(line.named)
    cluster.leader.partition(ONE).delete_records_before(3)
    await eventually(lambda: cluster.leader.partition(ONE).low_watermark() == 3)
    assert cluster.follower.partition(ONE).log.log_start_offset == 3
    assert (tmp_path / "broker-2" / LOG_START_OFFSETS).read_text().splitlines().count(f"many {ONE.partition} 3") == 1
    await cluster.quiet()
    assert [names for names in line.told[told:] if names] == [[ONE]], "it alone is spoken of, once"
    assert [names for names in line.named[named:] if names] == [[ONE]]


async def test_a_follower_whose_disk_notes_nothing_keeps_the_low_watermark_back_until_it_does(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create(ONE)
    cluster.leader.append(ONE, batches=5)
    await cluster.quiet()
    note, full = LogDir.checkpoint_log_start_offsets, [True]

    def fails_at_the_follower(log_dir: LogDir) -> None:
        if full[0] and log_dir.folder.name == "broker-2":
            raise OSError("no space left")
        note(log_dir)

    monkeypatch.setattr(LogDir, "checkpoint_log_start_offsets", fails_at_the_follower)
    monkeypatch.setattr("ottla.broker.replication.log_start_loop.RETRY_S", 0.01)
    leader = cluster.leader.partition(ONE)
    leader.delete_records_before(HIGH_WATERMARK)
    await eventually(lambda: cluster.follower.partition(ONE).log.log_start_offset == 5)
    await eventually(lambda: leader.kept_start == 5)
    assert leader.low_watermark() == 0
    full[0] = False
    await eventually(lambda: leader.low_watermark() == 5)


async def test_a_log_that_was_cut_below_its_noted_beginning_is_told_again(cluster: Cluster) -> None:
    await cluster.create(ONE)
    cluster.leader.append(ONE, batches=5)
    await cluster.quiet()
    cluster.follower.partition(
        ONE
    ).kept_start = 99  # as after an unclean election: what was noted is of no log any more
    cluster.leader.partition(ONE).delete_records_before(3)
    await eventually(lambda: cluster.leader.partition(ONE).low_watermark() == 3)
    assert cluster.follower.partition(ONE).log.log_start_offset == 3


async def test_a_data_folder_that_notes_nothing_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.replication.log_start_loop.RETRY_S", 0.01)
    config = LogConfig()
    log_dirs = [LogDir.open(tmp_path / name, broker_id=1, cluster_id="c", config_for=lambda _: config) for name in "ab"]
    events = PartitionEvents()
    loop = LogStartLoop(log_dirs)
    events.on_start_moved.append(loop.start_moved)
    partitions = Partitions(1, log_dirs, config, 1, events)
    two = MANY[:2]
    orders = [PartitionState(where.topic, "id", where.partition, 1, 0, [1], [1], 1, 1, []) for where in two]
    for order in orders:  # each goes to the folder that has the fewest
        assert await partitions.apply([order], [TopicConfig("many", "id", {})]) == {}
    assert [sorted(log_dir.logs) for log_dir in log_dirs] == [[two[0]], [two[1]]]
    for bad, good in ((0, 1), (1, 0)):
        in_the_way = tmp_path / "ab"[bad] / f"{LOG_START_OFFSETS}.tmp"
        in_the_way.mkdir()
        parts = [partitions.led(*where, -1) for where in two]
        for part in parts:
            part.log.truncate_fully_and_start_at(part.log.log_start_offset + 5)
            events.start_moved(part)
        await eventually(lambda: parts[good].kept_start == parts[good].log.log_start_offset)  # noqa: B023
        assert parts[bad].kept_start < parts[bad].log.log_start_offset
        in_the_way.rmdir()
        await eventually(lambda: parts[bad].kept_start == parts[bad].log.log_start_offset)  # noqa: B023
    await loop.stop()
    await partitions.close()
