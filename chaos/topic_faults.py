"""What an admin does to the topic while records flow: its settings and its place. All of it is taken back at the end."""

import time
from random import Random

from ottla.chaos.history import Lowered
from ottla.chaos.watcher import View
from ottla.client import Admin

ASK_TIMEOUT_S = 15.0
"""How long the controller may take: it may have to be elected first."""

HEARD_S = 5.0
"""After a setting was changed, a leader may go by the old one for so long."""

LOW = 1


class TopicFaults:
    """Of one topic, whose partitions have ``replication`` replicas."""

    def __init__(self, bootstrap: str, topic: str, replication: int, min_insync: int, seed: int) -> None:
        self._lowered: list[Lowered] = []
        self._bootstrap = bootstrap
        self.name = topic
        self._replication = replication
        self._min_insync = min_insync
        self._chance = Random(seed)
        self._lowered_at: float | None = None
        self._homes: dict[int, tuple[int, ...]] = {}

    @property
    def lowered(self) -> list[Lowered]:
        """When min.insync.replicas was less than it is else."""
        still = [Lowered(self._lowered_at, float("inf"), LOW)] if self._lowered_at is not None else []
        return self._lowered + still

    def lower_min_insync(self) -> None:
        # From before the request on: a leader may have heard of it before we hear that it was done, or never do.
        self._lowered_at = time.monotonic()
        self._alter(LOW)

    def raise_min_insync(self) -> None:
        if self._lowered_at is not None:
            self._alter(self._min_insync)
            self._lowered.append(Lowered(self._lowered_at, time.monotonic() + HEARD_S, LOW))
            self._lowered_at = None

    def _alter(self, min_insync: int) -> None:
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            admin.alter_topic_config(self.name, {"min.insync.replicas": str(min_insync)}, timeout=ASK_TIMEOUT_S)

    def move_twice(self, partition: int, view: View, brokers: list[int]) -> str:
        """To other brokers, fewer or in another order, and at once to others again; what was asked for."""
        self._homes.setdefault(partition, view.partitions[partition].replicas)
        asked = []
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            for _ in range(2):
                count = self._chance.randint(min(self._min_insync, self._replication), self._replication)
                asked.append(self._chance.sample(brokers, count))
                admin.reassign(self.name, partition, asked[-1], timeout=ASK_TIMEOUT_S)
        return " and ".join(map(str, asked))

    def move_back(self, partition: int) -> None:
        home = self._homes.get(partition)
        if home is not None:
            with Admin(bootstrap_servers=self._bootstrap) as admin:
                admin.reassign(self.name, partition, home, timeout=ASK_TIMEOUT_S)
            del self._homes[partition]

    def restore(self) -> None:
        """What an end could not take back, because nobody answered."""
        self.raise_min_insync()
        for partition in list(self._homes):
            self.move_back(partition)
