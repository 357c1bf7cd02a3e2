"""Leaders that the controller reaches and their followers do not: whether another in-sync replica should lead. Pure."""

from collections.abc import Collection

from ottla.broker.controller.decisions.actions import Action, WriteStates
from ottla.broker.controller.decisions.cluster import Cluster
from ottla.broker.controller.decisions.election import elect
from ottla.broker.controller.decisions.leaders import Leaders
from ottla.wire.names import NO_LEADER


def replace_unreachable(leaders: Leaders, cluster: Cluster, leader: int, cut_off: Collection[int]) -> list[Action]:
    """New leaders for partitions whose leader ``cut_off`` brokers do not reach, where that makes them available again.

    A leader keeps a partition as long as it has min.insync.replicas without those: it removes them from the ISR itself. It
    loses the partition where it has not and they have. Both cannot hold for two leaders in turn, so leadership does not move
    back and forth during a cut. Whoever is not cut off leaves the ISR, too, for it may not reach the new leader; it joins
    again as soon as it has fetched.
    """
    changes = []
    for where in leaders.among(None):
        topic = cluster.topics[where.topic]
        state = topic.states[where.partition].state
        if state.leader != leader:
            continue
        able = leaders.able(where) - leaders.distrusted.get(where, set()) - leaders.lost.get(where, set())
        others = {broker for broker in {*state.isr, *state.elr} if broker in cut_off and broker in able}
        min_insync = leaders.min_insync(topic)
        if len(others) < min_insync or len(set(state.isr) - others) >= min_insync:
            continue
        decided = elect(topic.replicas[where.partition], state.isr, others, elr=state.elr, min_insync=min_insync)
        if decided.leader != NO_LEADER:
            changes.append(leaders.change(where, decided))
    return [WriteStates(changes)] if changes else []
