"""What is answered to somebody who asked for elections: a result for each partition. Pure."""

from collections.abc import Iterable

from ottla.broker.controller.decisions.cluster import Cluster
from ottla.wire.admin import ElectionType
from ottla.wire.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    OttlaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.wire.names import NO_LEADER, TopicPartition

Results = dict[TopicPartition, OttlaError | None]
"""None: it was elected."""


def elections_needed(cluster: Cluster, election: ElectionType, wanted: Iterable[TopicPartition] | None) -> Results:
    """Before: of the wanted partitions (or all) which need an election, and why the others get none.

    Who names none hears only of those that need one.
    """
    partitions = cluster.partitions()
    known = set(partitions)
    results: Results = {}
    for where in partitions if wanted is None else wanted:
        place = {"topic": where.topic, "partition": where.partition}
        if where not in known:
            results[where] = UnknownTopicOrPartition(f"{where} does not exist", **place)  # type: ignore[arg-type]
        elif _is_needed(cluster, election, where):
            results[where] = None
        elif wanted is not None:
            results[where] = ElectionNotNeeded(f"{where} is led as it should be", **place)  # type: ignore[arg-type]
    return results


def elections_held(cluster: Cluster, election: ElectionType, before: Results) -> Results:
    """After: the same, with those that could not be elected."""
    known = set(cluster.partitions())
    results = dict(before)
    for where in [where for where, error in before.items() if error is None and where in known]:
        if _is_needed(cluster, election, where):
            results[where] = _not_elected(cluster, election, where)
    return results


def _is_needed(cluster: Cluster, election: ElectionType, where: TopicPartition) -> bool:
    topic = cluster.topics[where.topic]
    leader = topic.states[where.partition].state.leader
    if election is ElectionType.UNCLEAN:
        return leader == NO_LEADER
    return leader != topic.replicas[where.partition][0]


def _not_elected(cluster: Cluster, election: ElectionType, where: TopicPartition) -> OttlaError:
    if election is ElectionType.UNCLEAN:
        return EligibleLeadersNotAvailable(
            f"{where} has no replica that lives", topic=where.topic, partition=where.partition
        )
    preferred = cluster.topics[where.topic].replicas[where.partition][0]
    why = "is not in sync" if preferred in cluster.brokers else "does not live"
    return PreferredLeaderNotAvailable(
        f"the preferred leader of {where}, broker {preferred}, {why}", topic=where.topic, partition=where.partition
    )
