"""The result of a partition that a fetch cannot read: the error, and the current leader."""

from ottla.broker.api.parts import client_error
from ottla.broker.cluster_view import ClusterView
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.wire.errors import NotLeaderOrFollower, OttlaError
from ottla.wire.names import NO_EPOCH, NO_LEADER
from ottla.wire.requests import FetchPart, FetchPartResult


class IsolatedLeader(NotLeaderOrFollower):
    """Perhaps this broker leads a partition no more, and it reaches nobody who could tell."""


def isolated_leader(partition: Partition | None) -> OttlaError | None:
    """Why an isolated broker does not just say that a partition has no more records: another broker may have some.

    None for a partition without other replicas, which nobody else can lead.
    """
    if partition is None or len(partition.replicas) < 2:
        return None
    return IsolatedLeader(
        f"this broker is cut off from ZooKeeper and all other brokers, and may lead {partition.where} no more"
    )


def refusal(part: FetchPart, why: OttlaError, partitions: Partitions, view: ClusterView) -> FetchPartResult:
    """The answer of a part that cannot be read: why, and who leads it as far as known."""
    leader, leader_epoch = NO_LEADER, NO_EPOCH
    if not isinstance(why, IsolatedLeader):
        leader, leader_epoch = view.leader_of(part.topic, part.partition)
    why = client_error(why, part.topic, leader)
    start = partitions.log_start_offset(part.topic, part.partition)
    return FetchPartResult(
        why.code, str(why), part.topic, part.partition,
        log_start_offset=start, leader=leader, leader_epoch=leader_epoch, topic_id=view.topic_id_of(part.topic),
    )  # fmt: skip
