"""Watches a topic from outside during a run: who leads, who is in sync, who is the controller, and when that changed."""

import threading
import time
from typing import NamedTuple

from ottla.chaos.history import Event
from ottla.chaos.threads import WatchedThread
from ottla.client import Admin
from ottla.wire.errors import OttlaError

LOOK_EVERY_S = 0.1
ASK_TIMEOUT_S = 2.0


class PartitionView(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class View(NamedTuple):
    """A cluster as it was last seen."""

    controller: int
    partitions: tuple[PartitionView, ...]


class Watcher:
    """Looks ten times a second; what it sees may be late by that, and by a request that waits for a dead broker."""

    def __init__(self, bootstrap: str, topic: str, replication: int = 1) -> None:
        self.events: list[Event] = []
        self._replication = replication
        self._topic = topic
        self._admin = Admin(bootstrap_servers=bootstrap, request_timeout_ms=1000, connect_timeout_ms=1000)
        self._view: View | None = None
        self._stop = threading.Event()
        self.thread = WatchedThread("watcher", self._run)

    def start(self) -> None:
        self.look()
        self.thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self.thread.is_alive():
            self.thread.join()
        self._admin.close()

    @property
    def view(self) -> View:
        assert self._view is not None, "start() looks first"
        return self._view

    def look(self) -> View:
        """As it is now; an OttlaError if nobody can tell."""
        cluster = self._admin.describe_cluster(timeout=ASK_TIMEOUT_S)
        topic = next((topic for topic in cluster.topics if topic.name == self._topic), None)
        partitions = sorted(topic.partitions, key=lambda p: p.partition) if topic is not None else []
        seen = tuple(
            PartitionView(p.leader, p.leader_epoch, tuple(sorted(p.isr)), tuple(p.replicas)) for p in partitions
        )
        if self._view is not None and len(self._view.partitions) == len(seen):
            # A broker that has not heard of the last change answers with what was before.
            seen = tuple(
                max(pair, key=lambda part: part.leader_epoch) for pair in zip(seen, self._view.partitions, strict=True)
            )
        view = View(cluster.controller, seen)
        if partitions:
            self._note(view)
            self._view = view
        return view

    def all_in_sync(self) -> bool:
        try:
            view = self.look()
        except OttlaError:
            return False
        return bool(view.partitions) and all(
            part.leader >= 0 and self._replication <= len(part.replicas) == len(part.isr) for part in view.partitions
        )

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.look()
            except OttlaError:
                pass  # nobody answers: that is what the faults are for

    def _note(self, new: View) -> None:
        old, now = self._view, time.monotonic()
        if old is None or old.controller != new.controller:
            who = f"broker{new.controller}" if new.controller >= 0 else "nobody"
            self.events.append(Event(now, "controller", f"{who} is the controller"))
        for number, part in enumerate(new.partitions):
            before = old.partitions[number] if old is not None and number < len(old.partitions) else None
            if before is None or (before.leader, before.leader_epoch) != (part.leader, part.leader_epoch):
                who = f"broker{part.leader}" if part.leader >= 0 else "nobody"
                what = f"partition {number}: {who} leads, epoch {part.leader_epoch}"
                self.events.append(Event(now, "leader", what, targets=(str(number), str(part.leader))))
            if before is None or before.isr != part.isr:
                isr = ",".join(map(str, part.isr))
                what = f"partition {number}: in sync {isr or 'nobody'}"
                self.events.append(Event(now, "isr", what, targets=(str(number), isr)))
