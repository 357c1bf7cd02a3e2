"""How a partition moves to other brokers. Pure.

It begins with old and new replicas together, under the same leader. It goes on by itself: the new ones catch up, and the
leader lets them into the ISR. Once all of them are in, one of them leads and they alone are in sync; once that is written,
the others are deleted.
"""

from ottla.broker.controller.actions import Action, WriteStates, WriteTopic
from ottla.broker.controller.cluster import Cluster
from ottla.broker.controller.election import Leadership, elect
from ottla.broker.controller.leaders import Leaders
from ottla.broker.controller.orders import Orders
from ottla.wire.names import NO_LEADER, TopicPartition


class Reassignment:
    """Begins and ends moves. How far each has come stands in its topic (``adding``, ``removing``), and so in ZooKeeper."""

    def __init__(self, cluster: Cluster, leaders: Leaders, orders: Orders) -> None:
        self._cluster = cluster
        self._leaders = leaders
        self._orders = orders

    def begin(self, where: TopicPartition, target: tuple[int, ...]) -> list[Action]:
        """A partition is to have other replicas. First it has the old and the new ones; see ``finish``."""
        topic = self._cluster.topics[where.topic]
        old = topic.target(where.partition)
        topic.replicas[where.partition] = (*target, *(broker for broker in old if broker not in target))
        topic.adding[where.partition] = tuple(broker for broker in target if broker not in old)
        topic.removing[where.partition] = tuple(broker for broker in old if broker not in target)
        state = topic.states[where.partition].state
        # The same leader in a new epoch: so it learns of its new followers, and they of it.
        again = self._leaders.change(where, Leadership(state.leader, state.isr, state.elr))
        return [WriteTopic(where.topic, topic.znode(), topic.version), WriteStates([again])]

    def finish(self, name: str) -> list[Action]:
        """Where all new replicas are in sync: they alone remain. ZooKeeper hears of it last, so a crash can be resumed.

        Invariant: a replica is deleted only once it stands in ZooKeeper that it neither leads nor is in sync.
        """
        topic = self._cluster.topics.get(name)
        if topic is None or topic.deleting:
            return []
        actions: list[Action] = []
        done = False
        for partition in topic.moving():
            where, target = TopicPartition(name, partition), topic.target(partition)
            state = topic.states[partition].state
            if not set(target) <= set(state.isr):
                continue
            if state.leader not in target or not set(state.isr) <= set(target):
                decided = elect(target, [i for i in state.isr if i in target], self._cluster.brokers)
                if state.leader in target and state.leader in self._cluster.brokers:
                    decided = decided._replace(leader=state.leader)
                if decided.leader != NO_LEADER:
                    # The rest follows when it is written.
                    actions.append(WriteStates([self._leaders.change(where, decided)]))
                continue
            done = True
            gone = topic.removing.pop(partition, ())
            topic.adding.pop(partition, None)
            topic.replicas[partition] = target
            actions += self._orders.announce([where])
            for broker in gone:
                if broker in self._cluster.brokers:
                    actions += self._orders.stop(broker, [where], delete=True)
        if done:
            actions.append(WriteTopic(name, topic.znode(), topic.version))
        return actions
