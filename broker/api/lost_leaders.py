"""Leaders that have just gone, before the controller has said so: who asks who leads waits a moment for its word.

Clients that lose their leader ask others at once who leads now, sooner than the controller can know. Told the dead one once
more, librdkafka asks again after a second; told the new one a moment later, it goes on.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from ottla.broker.cluster_view import ClusterView

WAIT_S = 0.6
"""A controller that lives has elected by then; if none does, waiting longer does not help."""

FOLLOWED_WAIT_S = 0.002
"""By then the end of a connection has been seen here, too, that a client has seen."""


class LostLeaders:
    """``is_followed``: whether this broker follows another; ``is_cut_off``: whether it does, and its connection to it broke."""

    def __init__(
        self, view: ClusterView, is_followed: Callable[[int], bool], is_cut_off: Callable[[int], bool]
    ) -> None:
        self._view = view
        self._is_followed = is_followed
        self._is_cut_off = is_cut_off
        self._changed = asyncio.Event()
        view.on_changed.append(self._view_changed)

    def _view_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def can_tell(self, names: Sequence[str]) -> bool:
        """Whether this broker would know if leaders of these topics were gone."""
        return any(map(self._is_followed, self._leaders(names)))

    async def wait(self, names: Sequence[str]) -> None:
        """Until nobody leads these topics whose connection to this broker is broken, or it took too long."""
        await asyncio.sleep(FOLLOWED_WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while any(map(self._is_cut_off, self._leaders(names))):
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _leaders(self, names: Sequence[str]) -> set[int]:
        found = [self._view.topic(name) for name in names]
        return {partition.leader for topic in found if topic is not None for partition in topic.partitions}
