"""How a partition moves to other brokers. Pure.

It begins with old and new replicas together, under the same leader. It goes on by itself: the new ones catch up, and the
leader lets them into the ISR. Once all of them are in, one of them leads and they alone are in sync; once that is written,
the others are deleted, each when it lives. It may be told to go elsewhere, or back, at any moment on the way.
"""

from collections.abc import Iterable

from ottla.broker.controller.decisions.actions import Action, WriteStates, WriteTopic
from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.broker.controller.decisions.election import Leadership, elect
from ottla.broker.controller.decisions.leaders import Leaders
from ottla.broker.controller.decisions.orders import Orders
from ottla.wire.names import NO_LEADER, TopicPartition

NOT_YET = -1


class Reassignment:
    """Begins and ends moves. How far each has come stands in its topic (``adding``, ``removing``), and so in ZooKeeper."""

    def __init__(self, cluster: Cluster, leaders: Leaders, orders: Orders) -> None:
        self._cluster = cluster
        self._leaders = leaders
        self._orders = orders
        self._told_to_delete: set[tuple[TopicPartition, int, int]] = set()  # by which broker, in which life of it
        self._unannounced: dict[TopicPartition, int] = {}
        """Whose leader may not know the replicas that are to come, and by which version of its state it was last to be told."""

    def begin(self, where: TopicPartition, target: tuple[int, ...]) -> list[Action]:
        """A partition is to have other replicas. First it has the old and the new ones; see ``finish``.

        Invariant: whoever holds records, from before this move or from one that has not ended, stays a replica until the
        end: it may lead or be in sync.
        """
        topic, partition = self._cluster.topics[where.topic], where.partition
        if partition in topic.moving() and topic.target(partition) == target:
            return []  # asked again: it is on its way
        held, came = topic.replicas[partition], topic.adding.get(partition, ())
        topic.removing[partition] = tuple(broker for broker in topic.holders(partition) if broker not in target)
        topic.adding[partition] = tuple(broker for broker in target if broker not in held or broker in came)
        topic.replicas[partition] = (*target, *(broker for broker in held if broker not in target))
        self._told_to_delete = {told for told in self._told_to_delete if told[0] != where}
        self._unannounced[where] = NOT_YET
        return [WriteTopic(where.topic), *self._announce([where])]

    def _announce(self, partitions: Iterable[TopicPartition]) -> list[Action]:
        """The same leader in a new epoch: so it learns of its new followers, and they of it."""
        changes = []
        for where in partitions:
            known = self._cluster.topics[where.topic].states[where.partition]
            state = known.state
            if state.leader not in self._cluster.brokers or self._leaders.is_unsettled(where):
                continue  # an epoch will begin anyway
            if self._unannounced.get(where) != known.version:  # else that is on its way
                self._unannounced[where] = known.version
                changes.append(self._leaders.change(where, Leadership(state.leader, state.isr, state.elr)))
        return [WriteStates(changes)] if changes else []

    def announced(self, where: TopicPartition) -> None:
        """A new epoch of this partition stands in ZooKeeper, and its replicas are told."""
        self._unannounced.pop(where, None)

    def told_nothing(self, broker: int) -> None:
        """What a broker was told to delete did not reach it."""
        self._told_to_delete = {told for told in self._told_to_delete if told[1] != broker}

    def forget(self, topic: str) -> None:
        """A topic is gone, and its moves with it."""
        self._told_to_delete = {told for told in self._told_to_delete if told[0].topic != topic}
        for where in [where for where in self._unannounced if where.topic == topic]:
            del self._unannounced[where]

    def resume(self) -> None:
        """A term begins: whether the last controller got to announce what it had begun is not known."""
        for name, topic in self._cluster.topics.items():
            self._unannounced |= {TopicPartition(name, partition): NOT_YET for partition in topic.adding}

    def finish(self, name: str) -> list[Action]:
        """Where all new replicas are in sync: they alone remain. ZooKeeper hears of it last, so a crash can be resumed.

        Invariant: a replica is deleted only once it stands in ZooKeeper that it neither leads nor is in sync; and it is
        remembered there until it says that it is deleted.
        """
        topic = self._cluster.topics.get(name)
        if topic is None or topic.deleting:
            return []
        moving = [TopicPartition(name, partition) for partition in topic.moving()]
        actions = self._announce([where for where in moving if where in self._unannounced])
        done = False
        for where in moving:
            partition = where.partition
            if where in self._unannounced:
                continue
            if not topic.only_deletes(partition):
                decided, ready = self._next(topic, where)
                actions += decided
                if not ready:
                    continue
                done = True
                topic.replicas[partition] = topic.target(partition)
                topic.adding.pop(partition, None)
                if not topic.removing.get(partition):
                    topic.removing.pop(partition, None)
                actions += self._orders.announce([where])
            actions += self._delete(topic, where)
        if done:
            actions.append(WriteTopic(name))
        return actions

    def deleted(self, where: TopicPartition, broker: int) -> list[Action]:
        """A broker that gave a partition away has deleted what it held of it."""
        topic = self._cluster.topics.get(where.topic)
        left = topic.removing.get(where.partition, ()) if topic is not None else ()
        if topic is None or broker not in left or not topic.only_deletes(where.partition):
            return []
        self._told_to_delete = {told for told in self._told_to_delete if told[:2] != (where, broker)}
        topic.removing[where.partition] = tuple(other for other in left if other != broker)
        if not topic.removing[where.partition]:
            del topic.removing[where.partition]
        return [WriteTopic(where.topic)]

    def _next(self, topic: Topic, where: TopicPartition) -> tuple[list[Action], bool]:
        """What leads on to the replicas of the target alone, and whether they are it already."""
        target, state = topic.target(where.partition), topic.states[where.partition].state
        if not set(target) <= set(state.isr) or self._leaders.is_unsettled(where):
            return [], False
        if state.leader in target and set(state.isr) <= set(target):
            return [], True
        able = self._leaders.able(where)
        decided = elect(target, [broker for broker in state.isr if broker in target], able)
        if state.leader in target and state.leader in able:
            decided = decided._replace(leader=state.leader)
        if decided.leader == NO_LEADER:
            return [], False
        return [WriteStates([self._leaders.change(where, decided)])], False  # the rest follows when it is written

    def _delete(self, topic: Topic, where: TopicPartition) -> list[Action]:
        actions: list[Action] = []
        for broker in topic.removing.get(where.partition, ()):
            registered = self._cluster.brokers.get(broker)
            if registered is not None and (where, broker, registered.epoch) not in self._told_to_delete:
                self._told_to_delete.add((where, broker, registered.epoch))
                actions += self._orders.stop(broker, [where], delete=True)
        return actions
