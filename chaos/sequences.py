"""Faults that take several steps in a certain order. The nemesis calls them; each returns the function that ends the fault."""

import time
from collections.abc import Callable

from ottla.chaos.faults import NotOffered
from ottla.chaos.targets.damage import LOSSES
from ottla.chaos.targets.target import Target

Undo = Callable[[], None]

ALONE_S = 0.15
"""How long the others are paused before a leader is killed ahead of them, or clients hear nothing before it is paused."""

STEP_S = 20.0
"""How long one step of a sequence may take before the fault is given up."""

ACKNOWLEDGES_S = 2.0
"""How long a restarted leader may acknowledge records before it is killed again."""


class FaultSequences:
    """The faults of one run that consist of several steps on one topic."""

    def __init__(self, target: Target, topic: str) -> None:
        self._target = target
        self._topic = topic

    def kill_ahead(self, victims: list[str], others: list[str]) -> Undo:
        """Kill the victims after a moment in which the other brokers could not copy from them."""
        for node in others:
            self._target.pause(node)
        try:
            time.sleep(ALONE_S)
            for node in victims:
                self._target.kill(node)
        finally:
            for node in others:
                self._target.resume(node)
        return lambda: self._start(*victims)

    def wipe(self, victim: str, *others: str) -> Undo:
        """Delete the data of one broker while none runs, and start it alone. Every record is on the other disks, too."""
        self._target.kill_together([victim, *others])
        self._target.wipe(victim)
        self._target.start(victim)
        return lambda: self._start(*others)

    def lose_partition(self, partition: int, pick: int, victim: str, *others: str) -> Undo:
        """Remove or shorten a partition of one broker while none runs, and start that broker alone."""
        self._target.kill_together([victim, *others])
        self._target.damage(victim, self._topic, partition, LOSSES[pick % len(LOSSES)])
        self._target.start(victim)
        return lambda: self._start(*others)

    def flip_bit(self, partition: int, leader: str, follower: str) -> Undo:
        """Damage a batch on the leader's disk and let a follower, whose copy is gone, fetch all batches again."""
        self._target.damage(leader, self._topic, partition, "flip-bit")
        self._target.kill(follower)
        self._target.damage(follower, self._topic, partition, "remove-folder")
        return lambda: self._start(follower)

    def bad_election(self, partition: int, leader: str, successor: str) -> Undo:
        """Kill a leader whose successor cannot write the next leader epoch."""
        self._target.spoil_epochs(successor, self._topic, partition)
        self._target.kill(leader)

        def end() -> None:
            self._target.mend_epochs(successor, self._topic, partition)
            self.restart(successor)
            self._target.start(leader)

        return end

    def restart_unseen(self, partition: int, leader: str, joins: str, controller: str) -> Undo:
        """Let ``joins`` into the ISR and restart the leader, both while the controller is paused.

        ZooKeeper then has a larger ISR than the controller's cache. If the leader goes on with the ISR of that cache, it
        acknowledges records that ``joins`` lacks, and ``joins`` is elected when the other two are killed at the end.
        """
        target, where = self._target, (self._topic, partition)
        joining = int(joins.removeprefix("broker"))
        target.kill(joins)
        self._wait(lambda: joining not in target.isr(*where), "leave the ISR")
        target.pause(leader)
        target.start(joins)
        self._wait(lambda: target.serving(joins), "serve")
        target.pause(controller)
        target.resume(leader)
        self._wait(lambda: joining in target.isr(*where), "join the ISR")
        before = target.broker_epoch(leader)
        target.kill(leader)
        target.remove_isr_notifications()  # as if the leader had been killed before it wrote them
        target.start(leader)
        self._wait(lambda: target.broker_epoch(leader) > before, "register")
        target.pause(joins)
        target.resume(controller)
        time.sleep(ACKNOWLEDGES_S)

        def end() -> None:
            target.kill_together([leader, controller])
            target.resume(joins)
            time.sleep(target.session_s * 1.5)  # until the sessions of the others are over and it is elected
            self._start(leader, controller)

        return end

    def restart(self, node: str) -> None:
        if self._target.running(node):
            self._target.kill(node)
        self._target.start(node)

    def _start(self, *nodes: str) -> None:
        for node in nodes:
            if not self._target.running(node):
                self._target.start(node)

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_S
        while not is_done():
            if time.monotonic() > deadline:
                raise NotOffered(f"a broker did not {what} within {STEP_S:g} s")
            time.sleep(0.02)
