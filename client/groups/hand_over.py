"""What becomes of a member's partitions, told to whoever reads them when it polls: never while it works on what it got."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from ottla.wire.names import TopicPartition


class Change(Enum):
    """What happened to partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """They will be another member's: the last moment to commit what was read of them."""
    LOST = "lost"
    """They may be another member's already: nothing can be committed any more."""


class RebalanceListener(Protocol):
    """What an application may want to hear; each is called while it polls. Methods that are missing are not called."""

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> object: ...
    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> object: ...
    def on_partitions_lost(self, partitions: set[TopicPartition]) -> object: ...


def hears_something(listener: object) -> bool:
    """Whether it has any of a listener's methods: a function has not, nor has one whose names are misspelt."""
    return any(hasattr(listener, f"on_partitions_{change.value}") for change in Change)


class Step:
    """One change that the reader must take before the group goes on, or before it gets more records."""

    def __init__(self, change: Change, partitions: Iterable[TopicPartition]) -> None:
        self.change = change
        self.partitions = set(partitions)
        self.taken = asyncio.Event()

    def listener_call(self, listener: object | None) -> Callable[[set[TopicPartition]], object] | None:
        """What to call for it."""
        return self.listener_call_for(self.change, listener)

    @staticmethod
    def listener_call_for(change: Change, listener: object | None) -> Callable[[set[TopicPartition]], object] | None:
        """Who hears nothing of lost partitions is told that they are revoked, as Kafka does."""
        method = getattr(listener, f"on_partitions_{change.value}", None)
        if method is None and change is Change.LOST:
            method = getattr(listener, "on_partitions_revoked", None)
        return method


class Steps:
    """Those that wait for the reader, in order. ``wake`` is called when there is one: it may be waiting for records."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._steps: deque[Step] = deque()
        self._wake = wake

    def put(self, change: Change, partitions: Iterable[TopicPartition]) -> Step:
        step = Step(change, partitions)
        self._steps.append(step)
        self._wake()
        return step

    def lose(self, partitions: set[TopicPartition]) -> None:
        """They are gone already: whoever was about to hand some of them over is told that instead."""
        for step in self._steps:
            if step.change is Change.REVOKED:
                step.change = Change.LOST
                partitions = partitions - step.partitions
        if partitions:
            self.put(Change.LOST, partitions)

    @property
    def next(self) -> Step | None:
        return self._steps[0] if self._steps else None

    @property
    def holds_up(self) -> bool:
        """Whether the group waits for the reader."""
        return any(step.change is Change.REVOKED for step in list(self._steps))

    def unheard_losses(self) -> set[TopicPartition]:
        """What is gone, or was for a while, without the reader having been told."""
        lost: set[TopicPartition] = set()
        for step in list(self._steps):
            if step.change is Change.LOST:
                lost |= step.partitions
        return lost

    def taken(self, step: Step) -> None:
        """On the event loop's thread."""
        if self._steps and self._steps[0] is step:
            self._steps.popleft()
        step.taken.set()
