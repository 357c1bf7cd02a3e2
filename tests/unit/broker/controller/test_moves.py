"""Which replicas of a partition that moves its leader may count."""

import pytest

from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.wire.names import TopicPartition
from ottla.zk.metadata import VersionedState
from ottla.zk.znodes.topics import PartitionStateZnode


def moving(leader: int, isr: tuple[int, ...]) -> Topic:
    """From brokers 0 and 1 to 2 and 1."""
    state = VersionedState(PartitionStateZnode(leader, 1, 1, isr), 3)
    return Topic("id", {}, {0: (2, 1, 0)}, {0: state}, adding={0: (2,)}, removing={0: (0,)})


@pytest.mark.parametrize(
    ("leader", "isr"),
    [(0, (0, 1)), (0, (0, 1, 2)), (1, (0, 1, 2))],
    ids=["begun", "caught up", "led by one that stays"],
)
def test_old_replicas_count_while_one_of_them_is_in_sync(leader: int, isr: tuple[int, ...]) -> None:
    assert moving(leader, isr).counted(0) == (2, 1, 0)


def test_replica_that_is_about_to_be_deleted_is_no_follower_any_more() -> None:
    # Else it would fetch once from the new leader, be let into the ISR again, and be deleted as a member of it.
    cluster = Cluster()
    cluster.topics["t"] = moving(2, (1, 2))
    assert cluster.state(TopicPartition("t", 0)).replicas == [2, 1]


def test_partition_that_does_not_move_has_all_its_replicas() -> None:
    state = VersionedState(PartitionStateZnode(0, 0, 1, (0,)), 0)
    assert Topic("id", {}, {0: (0, 1, 2)}, {0: state}).counted(0) == (0, 1, 2)
