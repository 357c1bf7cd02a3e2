"""Why a follower cuts its log by leader epochs and by nothing else: two rows of failures, and what other habits do in them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.messages import ACKS_LEADER
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.observer import segment_bytes
from tests.support.raw_client import RawClient, one_record
from tests.support.tapped_broker import Habit, TappedBroker, tapped_brokers
from tests.support.workload import WAIT_S, all_in_sync, leader_of
from tests.support.znodes import partition_state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

CONFIG = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "30000"}
"""Nobody leaves the ISR for being late while these tests run."""

TOPIC = "cut"
FIRST, SECOND, THIRD = 1, 2, 3
"""The replicas, in the order in which they are to lead. Broker 0 has none and is the controller."""


class Stage(NamedTuple):
    cluster: LocalCluster
    admin: Admin
    brokers: dict[int, TappedBroker]

    def write(self, values: list[bytes]) -> None:
        """Have them acknowledged by all that are in sync."""
        with Producer(bootstrap_servers=self.cluster.bootstrap, acks="all") as producer:
            for value in values:
                producer.send(TOPIC, value).result(WAIT_S)

    def write_to_leader_alone(self, broker: int, values: list[bytes]) -> None:
        host, _, port = self.brokers[broker].address.rpartition(":")
        with RawClient((host, int(port))) as client:
            for value in values:
                client.produce(TOPIC, one_record(value), acks=ACKS_LEADER).raise_if_failed()

    def kill(self, broker: int) -> None:
        self.brokers[broker].process.kill()
        self.brokers[broker].process.wait(scaled(15))

    def wait_for_leader(self, leader: int) -> int:
        """Wait until it leads; gives its epoch."""
        wait_until(lambda: leader_of(self.admin, TOPIC) == leader, WAIT_S)
        return partition_state(self.cluster, TOPIC).state.leader_epoch

    def wait_until_told(self, broker: int, leader_epoch: int) -> None:
        """Wait until a broker has taken the controller's word on a leader epoch."""
        word = f"partition state taken partition={TOPIC}-0 leader={SECOND} leader_epoch={leader_epoch} "
        wait_until(lambda: word in self.brokers[broker].log_path.read_text(), WAIT_S)

    def wait_in_sync(self) -> None:
        wait_until(lambda: all_in_sync(self.admin, TOPIC), WAIT_S)

    def stored(self, broker: int) -> bytes:
        return segment_bytes(self.brokers[broker].data_path / f"{TOPIC}-0")

    def replicas_are_equal(self) -> bool:
        return len({self.stored(broker) for broker in self.brokers}) == 1

    def read(self, count: int) -> list[bytes]:
        """The first records of the topic; fewer if there are no more."""
        found: list[bytes] = []
        with Consumer(TOPIC, bootstrap_servers=self.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            while len(found) < count and (records := consumer.poll(timeout=scaled(5))):
                found += [record.value for record in records]
        return found


@contextlib.contextmanager
def staged(folder: Path, habit: Habit) -> Iterator[Stage]:
    with (
        LocalCluster(brokers=1, broker_config=CONFIG) as cluster,
        tapped_brokers(cluster, [FIRST, SECOND, THIRD], CONFIG, folder, habit) as brokers,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        settings = {"min.insync.replicas": "2"}
        admin.create_topic(TOPIC, assignment=[[FIRST, SECOND, THIRD]], config=settings, timeout=WAIT_S)
        yield Stage(cluster, admin, brokers)


# --- two failovers before the news of the high watermark has arrived -----------------------------------------------------

BEFORE = [b"before %d" % number for number in range(10)]
LATE = [b"late %d" % number for number in range(10)]


def read_after_two_failovers(folder: Path, habit: Habit) -> list[bytes]:
    """What is left of acknowledged records whose last replica did not know yet that they were committed (KIP-101)."""
    with staged(folder, habit) as stage:
        stage.write(BEFORE)
        third = stage.brokers[THIRD]
        third.stale()
        stage.write(LATE)  # all three have them, or they would not be acknowledged
        assert LATE[-1] in stage.stored(THIRD)
        third.shut()
        stage.kill(FIRST)
        stage.wait_until_told(THIRD, stage.wait_for_leader(SECOND))
        assert THIRD in partition_state(stage.cluster, TOPIC).state.isr
        stage.kill(SECOND)  # before the third has fetched anything from it
        stage.wait_for_leader(THIRD)
        third.open()
        for broker in (FIRST, SECOND):
            stage.brokers[broker].start()
        stage.wait_in_sync()
        return stage.read(len(BEFORE + LATE))


def test_a10_acked_records_whose_commit_was_not_heard_of_survive_two_failovers(tmp_path: Path) -> None:
    assert read_after_two_failovers(tmp_path, Habit.NONE) == BEFORE + LATE


def test_a10_the_same_with_followers_that_cut_to_the_high_watermark_loses_acked_records(tmp_path: Path) -> None:
    """The proof that the test above can fail."""
    found = read_after_two_failovers(tmp_path, Habit.CUTS_TO_HIGH_WATERMARK)
    assert set(found) < set(BEFORE + LATE), found


# --- a tail that only the old leader has, replaced by another of the same length -----------------------------------------

TAIL = [b"lost %d" % number for number in range(10)]
OTHER = [b"kept %d" % number for number in range(10)]


@contextlib.contextmanager
def with_another_tail(folder: Path, habit: Habit) -> Iterator[Stage]:
    """The first leader dies with records that it alone has, and comes back to a log that has others in their place."""
    with staged(folder, habit) as stage:
        stage.write(BEFORE)
        for follower in (SECOND, THIRD):
            stage.brokers[follower].shut()
        stage.write_to_leader_alone(FIRST, TAIL)
        stage.kill(FIRST)
        assert TAIL[-1] in stage.stored(FIRST)
        stage.wait_until_told(SECOND, stage.wait_for_leader(SECOND))
        for follower in (SECOND, THIRD):
            stage.brokers[follower].open()
        stage.write_to_leader_alone(SECOND, OTHER)
        stage.brokers[FIRST].start()
        stage.wait_in_sync()
        yield stage


def test_a9_tail_that_nobody_else_has_is_cut_though_the_logs_are_as_long(tmp_path: Path) -> None:
    with with_another_tail(tmp_path, Habit.NONE) as stage:
        wait_until(stage.replicas_are_equal, WAIT_S)
        assert stage.read(20) == BEFORE + OTHER


def test_a9_the_same_with_followers_that_compare_lengths_leaves_replicas_that_differ(tmp_path: Path) -> None:
    """The proof that the test above can fail."""
    with with_another_tail(tmp_path, Habit.COMPARES_LENGTHS) as stage:
        assert not stage.replicas_are_equal()
        assert TAIL[-1] in stage.stored(FIRST)
