"""Leaders that are restarted before the controller has seen them fail: they do not go on in their old leader epoch."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.isr_changes import IsrChangeZnode
from ottla.zk.znodes.topics import PartitionStateZnode
from tests.support.cluster import complete, wait_until
from tests.support.weakened_broker import brokers_without
from tests.support.workload import WAIT_S, controller_of, in_sync, make_topic
from tests.support.znodes import broker_epoch, partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PATIENT = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "31000"}
"""Nobody leaves the ISR or loses its session by being paused while others are restarted."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, broker_config=PATIENT) as running:
        yield running


def remove_isr_notifications(cluster: LocalCluster) -> None:
    """As if the leader had been killed between its ISR change and the notification."""

    async def remove() -> None:
        session = ZkSession(cluster.zookeeper, digest=cluster.zookeeper_digest)
        await session.start(30)
        try:
            for name in await session.children(IsrChangeZnode.PARENT):
                await session.delete(f"{IsrChangeZnode.PARENT}/{name}", -1)
        finally:
            await session.close()

    asyncio.run(remove())


@dataclass
class Restarted:
    """A partition whose leader was restarted."""

    topic: str
    joined: int
    """A follower that is in the ISR by ZooKeeper, of which the controller has not heard. It sleeps."""
    leader_epoch: int
    """In which the leader led before."""


def start_without_waiting(cluster: LocalCluster, broker: int) -> None:
    """Start a broker that cannot be ready before another one wakes up; returns when it is registered."""
    before = broker_epoch(cluster, broker)
    cluster._broker(broker).process.start()
    cluster._broker(broker).wanted = True
    wait_until(lambda: broker_epoch(cluster, broker) > before, WAIT_S)


def restart_leader_before_the_controller_hears_of_its_isr(cluster: LocalCluster, admin: Admin) -> Restarted:
    controller = controller_of(admin)
    leader, follower, joins = (broker for broker in cluster.brokers if broker != controller)
    topic = make_topic(cluster, assignment=[[leader, follower, joins]])
    cluster.kill(joins)
    wait_until(lambda: in_sync(admin, topic) == [sorted([leader, follower])], WAIT_S)
    cluster.pause(leader)
    cluster.start(joins)  # it is told whom to follow, and cannot fetch
    cluster.pause(controller)
    cluster.resume(leader)
    wait_until(lambda: joins in partition_state(cluster, topic).state.isr, WAIT_S)
    epoch = partition_state(cluster, topic).state.leader_epoch
    cluster.kill(leader)
    remove_isr_notifications(cluster)
    start_without_waiting(cluster, leader)
    cluster.pause(joins)
    cluster.resume(controller)
    return Restarted(topic, joins, epoch)


def is_acknowledged_without_an_isr_member(cluster: LocalCluster, at: Restarted) -> bool:
    """Whether a record is acknowledged while a member of the ISR sleeps, before a new leader epoch begins."""
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=120_000) as producer:
        sent = producer.send(at.topic, b"record")

        def state() -> PartitionStateZnode:
            return partition_state(cluster, at.topic).state

        wait_until(lambda: sent.done() or state().leader_epoch > at.leader_epoch, WAIT_S)
        too_early = sent.done() and at.joined in state().isr
        cluster.resume(at.joined)
        sent.result(timeout=WAIT_S)
    return too_early


def test_restarted_leader_does_not_acknowledge_by_an_isr_that_the_controller_had_not_heard_of(
    cluster: LocalCluster,
) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        try:
            restarted = restart_leader_before_the_controller_hears_of_its_isr(cluster, admin)
            assert not is_acknowledged_without_an_isr_member(cluster, restarted)
        finally:
            complete(cluster)


def test_copy_of_a_running_brokers_data_folder_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    complete(cluster)
    original = cluster._broker(0)
    epoch = broker_epoch(cluster, original.id)
    shutil.copytree(original.data_path, tmp_path / "copy")
    options = [
        f"log.dirs={tmp_path / 'copy'}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "admin.listener=http://127.0.0.1:0",
    ]
    command = [*original.process.command, *(word for option in options for word in ("-o", option))]
    copy = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=child_environment(), check=False)
    assert copy.returncode == 1
    assert f"broker.id {original.id} is taken" in copy.stderr
    assert "is a copy of the other" in copy.stderr
    assert "hint: stop that broker" in copy.stderr
    assert broker_epoch(cluster, original.id) == epoch


@pytest.mark.deep
def test_without_new_epochs_a_restarted_leader_acknowledges_what_an_isr_member_lacks() -> None:
    with (
        brokers_without("new epochs for restarted leaders"),
        LocalCluster(brokers=4, broker_config=PATIENT) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        restarted = restart_leader_before_the_controller_hears_of_its_isr(cluster, admin)
        assert is_acknowledged_without_an_isr_member(cluster, restarted)
