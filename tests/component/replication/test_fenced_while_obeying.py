"""An order that waits, for the disk or for another order, is looked at again before it is obeyed."""

import asyncio
import threading
from typing import Any

import pytest

from ottla.broker.replication.replica_logs import ReplicaLogs
from ottla.wire.errors import StaleBrokerEpoch
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import LEADER, Cluster, turns
from tests.support.machine import scaled

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


async def test_a_broker_that_was_fenced_meanwhile_does_not_lead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create(A0)
    go_on, begun = threading.Event(), threading.Event()
    real = ReplicaLogs.open_all

    def slow(logs: ReplicaLogs, states: Any) -> Any:
        begun.set()
        assert go_on.wait(scaled(10))
        return real(logs, states)

    monkeypatch.setattr(ReplicaLogs, "open_all", slow)
    cluster.decide(A0, LEADER)
    cluster.decide(B0, LEADER)
    first = asyncio.create_task(cluster.tell(cluster.leader, B0))  # it makes a log, and waits for the disk
    second = asyncio.create_task(cluster.tell(cluster.leader, A0))  # it waits for the first
    await turns()
    assert begun.wait(scaled(10))
    cluster.leader.partitions.step_down_all()
    go_on.set()
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StaleBrokerEpoch] * 2
    assert not any(partition.is_leader for partition in cluster.leader.partitions)
    await cluster.tell(cluster.leader, A0, B0)  # the controller's word for the next life
    assert all(partition.is_leader for partition in cluster.leader.partitions)
