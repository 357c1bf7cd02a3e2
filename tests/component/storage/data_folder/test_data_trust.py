"""Whether data folders are what ZooKeeper knows of them."""

import shutil
from pathlib import Path

import pytest

from ottla.broker.data_trust import DataTrust
from ottla.broker.replication.partition_events import PartitionEvents
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.data_stamps import KEPT, DataStamps
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.control import PartitionState
from ottla.wire.names import TopicPartition
from ottla.zk.znodes.brokers import BrokerDataZnode, DataState

ONE = TopicPartition("one", 0)


class Folders:
    """The data folders of a broker over several runs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: list[LogDir] = []

    def trust(self, *names: str, boot_id: str = "boot") -> DataTrust:
        """The broker starts with these."""
        for log_dir in self.open:
            log_dir._lock.release()  # as when the process is killed
        config = LogConfig()
        self.open = [
            LogDir.open(self.folder / name, broker_id=1, cluster_id="c", config_for=lambda _: config, boot_id=boot_id)
            for name in names
        ]
        return DataTrust(self.open)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def known(folders: Folders) -> BrokerDataZnode:
    """Broker 1 runs with two folders, stamped twice."""
    trust = folders.trust("a", "b")
    assert trust.judge(None) is DataState.WHOLE, "a first start"
    stamped(trust)
    return stamped(trust)


def stamped(trust: DataTrust) -> BrokerDataZnode:
    """A stamp that ZooKeeper has taken."""
    found = trust.stamp()
    trust.confirmed(found)
    return found


def test_folders_that_bear_the_stamp_are_whole(folders: Folders, known: BrokerDataZnode) -> None:
    assert folders.trust("a", "b").judge(known) is DataState.WHOLE
    assert folders.trust("b", "a").judge(known) is DataState.WHOLE


def test_empty_folder_in_the_place_of_one_of_several_is_lost_data(folders: Folders, known: BrokerDataZnode) -> None:
    shutil.rmtree(folders.folder / "b")
    assert folders.trust("a", "b").judge(known) is DataState.LOST


def test_folder_that_is_configured_no_more_is_lost_data(folders: Folders, known: BrokerDataZnode) -> None:
    assert folders.trust("a").judge(known) is DataState.LOST


def test_older_copy_of_a_folder_is_lost_data(folders: Folders, known: BrokerDataZnode) -> None:
    shutil.copytree(folders.folder / "a", folders.folder / "copy")
    later = stamped(DataTrust(folders.open))
    shutil.rmtree(folders.folder / "a")
    (folders.folder / "copy").rename(folders.folder / "a")
    assert folders.trust("a", "b").judge(later) is DataState.LOST
    assert folders.trust("a", "b").judge(known) is DataState.WHOLE, "as it was before the last stamp"


def test_folder_that_was_never_known_is_just_new(folders: Folders, known: BrokerDataZnode) -> None:
    assert folders.trust("a", "b", "new").judge(known) is DataState.WHOLE


def test_folder_that_is_ahead_of_zookeeper_is_whole(folders: Folders, known: BrokerDataZnode) -> None:
    folders.trust("a", "b").stamp()  # the broker died before ZooKeeper took it
    assert folders.trust("a", "b").judge(known) is DataState.WHOLE


def test_stamps_that_never_reach_zookeeper_do_not_push_out_the_one_that_it_knows(
    folders: Folders, known: BrokerDataZnode
) -> None:
    trust = folders.trust("a", "b")
    assert len({trust.stamp().stamp for _ in range(KEPT + 1)}) == 1
    assert folders.trust("a", "b").judge(known) is DataState.WHOLE


def test_confirmation_of_an_older_stamp_does_not_forget_a_newer_one_nor_why_data_is_lost(
    folders: Folders, known: BrokerDataZnode
) -> None:
    trust = folders.trust("a")
    assert trust.judge(known) is DataState.LOST
    newer = trust.stamp()
    trust.confirmed(known)
    assert trust.why_lost
    assert trust.stamp() == newer, "it may stand in ZooKeeper already"


def test_crash_of_the_machine_makes_tails_suspect_until_that_is_reported(
    folders: Folders, known: BrokerDataZnode
) -> None:
    trust = folders.trust("a", "b", boot_id="another")
    assert trust.judge(known) is DataState.TAIL_SUSPECT
    trust.reported()
    assert trust.judge(known) is DataState.WHOLE


def test_stamps_are_kept_in_bounds_and_survive_garbage(tmp_path: Path) -> None:
    (tmp_path / ".data-stamps").write_text("\n".join(f"s{i}" for i in range(KEPT)))
    DataStamps(tmp_path).add("newest")
    again = DataStamps(tmp_path)
    assert "s0" not in again
    assert "s1" in again
    assert "newest" in again
    (tmp_path / ".data-stamps").write_bytes(b"\xff\xfe")
    assert "newest" not in DataStamps(tmp_path)


async def test_lost_partition_in_lost_folders_can_be_elected_all_the_same(
    folders: Folders, known: BrokerDataZnode
) -> None:
    """Before: an operator's unclean election was refused with every start, for ever."""
    folders.open[0].create_log(ONE, "id", LogConfig())
    folders.open[0].checkpoint_recovery_points()
    shutil.rmtree(folders.folder / "a" / str(ONE))
    shutil.rmtree(folders.folder / "b")
    trust = folders.trust("a", "b")
    assert trust.judge(known) is DataState.LOST
    assert ONE in folders.open[0].lost.losses
    partitions = Partitions(1, folders.open, LogConfig(), 1, PartitionEvents())
    elected = PartitionState(ONE.topic, "id", ONE.partition, 1, 3, [1, 2], [1], 3, 1, [])
    assert await partitions.apply([elected], [], 5) == {}
    assert partitions.leads(ONE)
    assert not folders.open[0].lost.losses
