"""Real brokers that lack one safety mechanism, to see that a chaos run finds what comes of it.

Run as a program, this is a broker: the first argument names the mechanism that is switched off. Nothing in the product
knows of it, and no configuration reaches it.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ottla.broker import file_descriptors
from ottla.broker.__main__ import main
from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller.decisions.actions import Action, Tell, TellReplicas
from ottla.broker.controller.decisions.leaders import Leaders
from ottla.broker.controller.decisions.orders import Orders
from ottla.broker.data_trust import DataTrust
from ottla.broker.file_descriptors import DescriptorPlan
from ottla.broker.replication.damage_loop import DamageLoop
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.state import LeaderState
from ottla.broker.storage.data_folder.lost_partitions import LostPartitions
from ottla.broker.storage.disk_health import DiskHealth
from ottla.broker.storage.producers.states import ProducerStates
from ottla.local.broker import BrokerProcess
from ottla.wire.requests import MetadataResponse, TopicMetadata
from ottla.zk.znodes.brokers import DataState
from tests.support.switched_off import cut_out


def _commit_without_followers() -> None:
    """A leader takes for committed, and acknowledges, what it alone has."""
    append = Partition.append

    def append_and_commit(self: Partition, *arguments: Any, **options: Any) -> Any:
        appended = append(self, *arguments, **options)
        self.high_watermark = self.log.log_end_offset
        return appended

    Partition.append = append_and_commit  # type: ignore[method-assign]


def _store_repeats() -> None:
    """A batch that comes again is stored again."""
    ProducerStates.check = lambda self, header, *, may_have_forgotten: None  # type: ignore[method-assign]


def _take_any_folder_for_whole() -> None:
    """A data folder that is empty or old counts for as much as the one that was in use."""
    DataTrust.judge = lambda self, known: DataState.WHOLE  # type: ignore[method-assign]


def _take_any_partition_for_whole() -> None:
    """A partition folder that is missing or was shortened counts for as much as one that holds what the checkpoints say."""
    LostPartitions.add = lambda self, losses: None  # type: ignore[method-assign]


def _take_shortages_for_failures() -> None:
    """A full disk, or a want of descriptors, fails a log until the broker restarts."""
    DiskHealth.refuse = DiskHealth.fail  # type: ignore[method-assign]


def _let_all_take_descriptors() -> None:
    """Clients may take the last file descriptors, and every segment that was read keeps one."""
    file_descriptors.plan = lambda limit: DescriptorPlan(limit, 2**31, 2**31, 2**31)


def _look_at_no_reported_batch() -> None:
    """A leader does not look at its own copy of a batch that came damaged to a follower."""
    DamageLoop.suspect = lambda self, partition, offset: None  # type: ignore[method-assign]


def _count_with_damaged_logs() -> None:
    """A log with a damaged batch is not cut when it does not count any more."""
    Partitions._settle_damage = lambda self, partition, state: None  # type: ignore[method-assign]


def _commit_beside_elr() -> None:
    """Where min.insync.replicas was lowered, a leader commits though ZooKeeper calls others eligible that lack the records."""
    cut_out(LeaderState, "committed_end", " or self.isr.elr")
    LeaderState.elr_outlived = lambda self, min_insync: False  # type: ignore[method-assign]


LAG_FROM_S, LAG_TO_S = 2.0, 5.0
"""When a broker lags, from when it first told of a topic."""


def _lag_behind() -> None:
    """For some seconds every other answer is what a broker may have known when the topic was being made: too few partitions."""
    describe = ClusterView.describe
    began: dict[str, float] = {}
    answers = itertools.count()

    def describe_late(self: ClusterView, names: Any, listener: str) -> MetadataResponse:
        told = describe(self, names, listener)
        now = time.monotonic()
        since = min((now - began.setdefault(topic.name, now) for topic in told.topics if topic.partitions), default=0.0)
        if LAG_FROM_S < since < LAG_TO_S and next(answers) % 2:
            topics = [
                TopicMetadata(topic.name, topic.topic_id, topic.partitions[:1], topic.config) for topic in told.topics
            ]
            return MetadataResponse(told.cluster_id, told.controller, told.brokers, topics, (0, 1))
        return told

    ClusterView.describe = describe_late  # type: ignore[method-assign]


def _let_restarted_leaders_go_on() -> None:
    """A restarted leader goes on in its old epoch, and LeaderAndIsr requests are built when they are decided."""
    to_replicas = Orders._to_replicas

    def to_replicas_at_once(self: Orders, *arguments: Any) -> list[Action]:
        decided = [action for action in to_replicas(self, *arguments) if isinstance(action, TellReplicas)]
        built = [(action.broker, self.leader_and_isr(action.broker, action.partitions)) for action in decided]
        return [Tell(broker, request) for broker, request in built if request is not None]

    Leaders._was_restarted = lambda self, where: False  # type: ignore[method-assign]
    Orders._to_replicas = to_replicas_at_once  # type: ignore[method-assign, assignment]


MECHANISMS: dict[str, Callable[[], None]] = {
    "waiting for followers": _commit_without_followers,
    "deduplication": _store_repeats,
    "data stamps": _take_any_folder_for_whole,
    "comparing logs with checkpoints": _take_any_partition_for_whole,
    "telling shortages from failures": _take_shortages_for_failures,
    "sharing out descriptors": _let_all_take_descriptors,
    "checking reported batches": _look_at_no_reported_batch,
    "cutting damaged logs": _count_with_damaged_logs,
    "forgetting who was eligible": _commit_beside_elr,
    "metadata in time": _lag_behind,
    "new epochs for restarted leaders": _let_restarted_leaders_go_on,
}


@contextmanager
def brokers_without(mechanism: str) -> Iterator[None]:
    """Every local cluster that is made meanwhile has such brokers."""
    prepare = BrokerProcess.prepare

    def prepare_weakened(self: BrokerProcess, *arguments: object) -> None:
        prepare(self, *arguments)  # type: ignore[arg-type]
        command = self.process.command
        assert command[1:3] == ["-m", "ottla.broker"]
        command[1:3] = [str(Path(__file__)), mechanism]

    # Compiled code would not see what is put in the place of its methods.
    with (
        mock.patch.object(BrokerProcess, "prepare", prepare_weakened),
        mock.patch.dict(os.environ, OTTLA_PURE="1", PYTHONPATH=str(Path(__file__).parents[2])),
    ):
        yield


if __name__ == "__main__":
    MECHANISMS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
