"""Disks that fail, vanish or come back as they once were: whoever lacks what was acknowledged neither leads nor counts."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.names import NO_LEADER
from tests.support.cluster import wait_until
from tests.support.small_topics import make_topic, read, write
from tests.support.workload import HASTY, WAIT_S, leader_of
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, broker_config=HASTY) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


VALUES = [b"%d" % i for i in range(500)]


def test_elected_replica_whose_log_cannot_be_opened_is_replaced(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(admin, [1, 2, 3])
    write(cluster, topic, VALUES)
    kill_all(cluster)
    (cluster.data_path(1) / f"{topic}-0" / "partition.metadata").unlink()
    start(cluster, 0, 1)
    wait_until(lambda: "partition state refused" in cluster.log_path(1).read_text(), WAIT_S)  # it was told, and cannot
    start(cluster, 2, 3)
    wait_until(lambda: leader_of(admin, topic) in (2, 3), WAIT_S)
    assert read(cluster, topic, len(VALUES)) == VALUES
    assert cluster.alive(1), "one bad disk ends no broker"


def test_elected_replica_whose_disk_fails_at_its_first_record_is_replaced(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(admin, [1, 2, 3], min_insync=1)
    write(cluster, topic, VALUES)
    # The file of epochs is put in place by a rename, and its name is taken by a folder: it cannot be written.
    (cluster.data_path(2) / f"{topic}-0" / "leader-epoch-checkpoint.tmp").mkdir()
    cluster.kill(1)
    write(cluster, topic, [b"after"])
    assert leader_of(admin, topic) == 3
    assert read(cluster, topic, len(VALUES) + 1) == [*VALUES, b"after"]


def kill_all(cluster: LocalCluster) -> None:
    for broker in cluster.brokers:
        if cluster.alive(broker):
            cluster.kill(broker)


def start(cluster: LocalCluster, *brokers: int) -> None:
    for broker in brokers:
        cluster.start(broker)


def leader_in_zookeeper(cluster: LocalCluster, topic: str) -> int:
    return partition_state(cluster, topic).state.leader


def test_broker_that_comes_back_first_with_an_empty_disk_does_not_have_everyone_lose_everything(
    cluster: LocalCluster, admin: Admin
) -> None:
    topic = make_topic(admin, [1, 2, 3])
    write(cluster, topic, VALUES)
    kill_all(cluster)
    shutil.rmtree(cluster.data_path(1))
    start(cluster, 0, 1)
    assert "the data of this broker is lost: folder" in cluster.log_path(1).read_text()
    wait_until(lambda: leader_in_zookeeper(cluster, topic) == NO_LEADER, WAIT_S)
    start(cluster, 2, 3)
    wait_until(lambda: leader_of(admin, topic) in (2, 3), WAIT_S)
    assert read(cluster, topic, len(VALUES)) == VALUES
    wait_until(lambda: 1 in partition_state(cluster, topic).state.isr, WAIT_S)
    cluster.kill(2)
    cluster.kill(3)
    start(cluster, 3)
    assert read(cluster, topic, len(VALUES)) == VALUES, "what it has by now counts again"


def test_folder_from_a_backup_does_not_count_for_what_was_written_since(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(admin, [1, 2, 3])
    write(cluster, topic, VALUES[:100])
    assert cluster.terminate(1) == 0
    backup = cluster.folder / "backup"
    shutil.copytree(cluster.data_path(1), backup)
    start(cluster, 1)
    wait_until(lambda: 1 in partition_state(cluster, topic).state.isr, WAIT_S)
    write(cluster, topic, VALUES[100:])
    kill_all(cluster)
    shutil.rmtree(cluster.data_path(1))
    backup.rename(cluster.data_path(1))
    start(cluster, 0, 1)
    wait_until(lambda: leader_in_zookeeper(cluster, topic) == NO_LEADER, WAIT_S)
    start(cluster, 2, 3)
    assert read(cluster, topic, len(VALUES)) == VALUES


def alone_in_sync(cluster: LocalCluster, admin: Admin) -> str:
    """A topic whose last records broker 1 alone has; all brokers but broker 0 are down."""
    topic = make_topic(admin, [1, 2, 3], min_insync=1)
    write(cluster, topic, VALUES[:100])
    cluster.kill(2)
    cluster.kill(3)
    wait_until(lambda: partition_state(cluster, topic).state.isr == (1,), WAIT_S)
    write(cluster, topic, VALUES[100:])
    cluster.kill(1)
    return topic


def test_disk_that_was_not_mounted_is_waited_for_and_then_trusted(cluster: LocalCluster, admin: Admin) -> None:
    topic = alone_in_sync(cluster, admin)
    mounted = cluster.data_path(1)
    away = mounted.rename(cluster.folder / "not-mounted")
    start(cluster, 1, 2, 3)
    wait_until(lambda: partition_state(cluster, topic).state.lost == (1,), WAIT_S)
    assert leader_in_zookeeper(cluster, topic) == NO_LEADER, "others would lose what broker 1 may still have"
    cluster.terminate(0)  # another controller does not know better
    start(cluster, 0)
    cluster.terminate(1)
    start(cluster, 1)
    assert leader_in_zookeeper(cluster, topic) == NO_LEADER
    cluster.terminate(1)
    shutil.rmtree(mounted)
    away.rename(mounted)
    start(cluster, 1)
    wait_until(lambda: leader_of(admin, topic) == 1, WAIT_S)
    assert read(cluster, topic, len(VALUES)) == VALUES
    assert partition_state(cluster, topic).state.lost == ()


def test_operator_takes_the_others_as_they_are_when_a_disk_is_lost_for_good(
    cluster: LocalCluster, admin: Admin
) -> None:
    topic = alone_in_sync(cluster, admin)
    shutil.rmtree(cluster.data_path(1))
    start(cluster, 1, 2, 3)
    wait_until(lambda: partition_state(cluster, topic).state.lost == (1,), WAIT_S)
    admin.elect_leaders([(topic, 0)], unclean=True, timeout=WAIT_S)
    assert leader_in_zookeeper(cluster, topic) == 2, "not the one that has nothing"
    assert read(cluster, topic, 100) == VALUES[:100]
    wait_until(lambda: set(partition_state(cluster, topic).state.isr) == {1, 2, 3}, WAIT_S)
    write(cluster, topic, [b"after"])
    cluster.terminate(1)
    start(cluster, 1)
    wait_until(lambda: set(partition_state(cluster, topic).state.isr) == {1, 2, 3}, WAIT_S)
    assert (
        "older than what this broker last wrote" not in cluster.log_path(1).read_text().rpartition("broker started")[2]
    )


def stand_in(cluster: LocalCluster, admin: Admin) -> tuple[str, str, Path]:
    """Broker 1 runs with an empty disk: one topic waits for the one that it lost, of the other the rest have everything."""
    safe = make_topic(admin, [1, 2, 3])
    write(cluster, safe, VALUES[:100])
    waiting = alone_in_sync(cluster, admin)
    away = cluster.data_path(1).rename(cluster.folder / "away")
    start(cluster, 1, 2, 3)
    wait_until(lambda: partition_state(cluster, waiting).state.lost == (1,), WAIT_S)
    wait_until(lambda: set(partition_state(cluster, safe).state.isr) == {2, 3}, WAIT_S)
    return safe, waiting, away


def test_disk_that_is_put_back_does_not_count_for_what_was_acked_without_it(
    cluster: LocalCluster, admin: Admin
) -> None:
    safe, waiting, away = stand_in(cluster, admin)
    write(cluster, safe, VALUES[100:])
    kill_all(cluster)
    shutil.rmtree(cluster.data_path(1))
    away.rename(cluster.data_path(1))
    start(cluster, 0, 1)
    wait_until(lambda: leader_in_zookeeper(cluster, waiting) == 1, WAIT_S)
    assert leader_in_zookeeper(cluster, safe) != 1
    start(cluster, 2, 3)
    assert read(cluster, safe, len(VALUES)) == VALUES
    assert read(cluster, waiting, len(VALUES)) == VALUES


def test_disk_in_the_place_of_a_lost_one_takes_records_once_nobody_waits_for_that(
    cluster: LocalCluster, admin: Admin
) -> None:
    safe, waiting, _ = stand_in(cluster, admin)
    write(cluster, safe, VALUES[100:])
    cluster.terminate(1)
    start(cluster, 1)
    assert 1 not in partition_state(cluster, safe).state.isr, "what it acked would be lost if the right disk came back"
    assert partition_state(cluster, waiting).state.lost == (1,)
    admin.elect_leaders([(waiting, 0)], unclean=True, timeout=WAIT_S)
    wait_until(lambda: 1 in partition_state(cluster, safe).state.isr, WAIT_S)
    admin.alter_topic_config(safe, {"min.insync.replicas": "1"}, timeout=WAIT_S)
    cluster.kill(2)
    cluster.kill(3)
    write(cluster, safe, [b"by the new disk alone"])
    cluster.kill(1)
    start(cluster, 2, 3, 1)
    wait_until(lambda: leader_of(admin, safe) == 1, WAIT_S)
    assert read(cluster, safe, len(VALUES) + 1) == [*VALUES, b"by the new disk alone"]


def test_after_a_power_cut_of_all_brokers_all_is_led_again(cluster: LocalCluster, admin: Admin) -> None:
    topic = make_topic(admin, [1, 2, 3])
    write(cluster, topic, VALUES)
    kill_all(cluster)
    for broker in cluster.brokers:
        (cluster.data_path(broker) / ".boot-id").write_text("of the boot before\n")
    start(cluster, *cluster.brokers)
    write(cluster, topic, [b"after"])
    assert read(cluster, topic, len(VALUES) + 1) == [*VALUES, b"after"]
