"""Where reading begins, asked of the leaders: a task for each leader that is asked, so that none waits for another."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from ottla.client.cluster import Cluster
from ottla.client.consuming.subscription import Assigned
from ottla.client.offsets import ask_offsets
from ottla.wire.errors import OttlaError
from ottla.wire.messages import EARLIEST
from ottla.wire.names import TopicPartition

POSITION_TIMEOUT_S = 5.0
"""How long a leader may take to say where a partition begins or ends, before it is asked again."""


class PositionLoop:
    """Gives partitions without a position one; ``on_found`` is called whenever some have got theirs."""

    def __init__(self, cluster: Cluster, reset_to: int | None, on_found: Callable[[], None]) -> None:
        """``reset_to``: EARLIEST or LATEST, as auto_offset_reset says; None if it is "none"."""
        self._cluster = cluster
        self._reset_to = reset_to
        self._on_found = on_found
        self._asking: dict[int | None, asyncio.Task[None]] = {}
        self._failures: dict[TopicPartition, Exception] = {}

    def can_ask(self, state: Assigned) -> bool:
        return state.from_beginning or self._reset_to is not None

    @property
    def settled(self) -> bool:
        """Whether all that were asked have answered, or failed to."""
        return not self._asking

    def ask(self, states: Iterable[Assigned]) -> None:
        """Ask the leaders of these, but for those that are being asked something already."""
        by_leader: dict[int | None, list[Assigned]] = defaultdict(list)
        for state in states:
            by_leader[self._cluster.leader(state.where)].append(state)
        for leader, group in by_leader.items():
            if leader not in self._asking:
                self._asking[leader] = asyncio.get_running_loop().create_task(self._ask(leader, group))

    async def wait(self, changed: asyncio.Event) -> None:
        """Until everything is settled, or something has changed: then there may be more to ask."""
        waiting = asyncio.get_running_loop().create_task(changed.wait())
        try:
            while self._asking and not changed.is_set():
                await asyncio.wait([waiting, *self._asking.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def raise_failure(self) -> None:
        """Raise why a partition got no position, if one did not; what failed may be asked again."""
        failures, self._failures = self._failures, {}
        for where, error in failures.items():
            if not isinstance(error, OttlaError):
                raise error
            raise type(error)(f"{where}: {error}", topic=where.topic, partition=where.partition, broker=error.broker)

    def cancel(self) -> list["asyncio.Task[None]"]:
        """End all that is under way; gives back its tasks."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        return tasks

    async def _ask(self, leader: int | None, states: list[Assigned]) -> None:
        asked: Mapping[Assigned, int] = {state: state.position_version for state in states}
        try:
            found, failures = await ask_offsets(
                self._cluster, {state.where: self._begin_at(state) for state in states}, POSITION_TIMEOUT_S
            )
            self._failures.update(failures)
            for state, position_version in asked.items():
                if state.where in found and state.position_version == position_version:
                    state.begin(found[state.where][0])
                    state.from_beginning = False
        except Exception as error:
            self._failures[states[0].where] = error
            return
        finally:
            del self._asking[leader]
        if found:
            self._on_found()

    def _begin_at(self, state: Assigned) -> int:
        return EARLIEST if state.from_beginning or self._reset_to is None else self._reset_to
