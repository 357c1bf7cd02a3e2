"""Work on a group that may have to be read first."""

import asyncio
import logging
from collections.abc import Callable

from ottla.broker.api.later import while_asked
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.groups_loop import Groups
from ottla.broker.groups.new_groups import NewGroups
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.errors import GroupIdNotFound, NotCoordinator, OttlaError, UnknownServerError

logger = logging.getLogger(__name__)


class GroupWork:
    """Whatever is asked of a group that is at hand is decided at once."""

    def __init__(self, groups: Groups, new_groups: NewGroups) -> None:
        self._groups = groups
        self._new_groups = new_groups

    def on(
        self,
        group_id: str,
        wait: Later,
        work: Callable[[Coordinated], None],
        *,
        maker: Peer | None = None,
        if_gone: Reply | None = None,
    ) -> Later:
        """Do it now if the group is at hand, else when it is. One that does not exist is made for ``maker``.

        Without a ``maker``, ``if_gone`` is answered for a group that does not exist; GroupIdNotFound if it is None.
        """
        at_hand = self._groups.loaded(group_id)
        if at_hand is not None:
            work(at_hand)
            return wait

        made_for = self._new_groups.of(maker) if maker is not None else None

        async def load_and_work() -> Reply:
            if made_for is not None:
                one = await made_for.get_or_make(self._groups, group_id)
            else:
                one = await self._groups.get(group_id, make=False)
            if one.over:
                raise NotCoordinator(f"group {group_id!r} has another coordinator by now")
            work(one)
            return Reply(None)

        def loaded(task: "asyncio.Future[Reply]") -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, GroupIdNotFound) and if_gone is not None:
                wait.give(if_gone)
                return
            if error is not None and not isinstance(error, OttlaError):
                logger.error("a request about a group failed group=%s", group_id, exc_info=error)
                error = UnknownServerError("the broker's log has the details")
            if error is not None or task.cancelled():
                wait.give(Reply(None, error=error or NotCoordinator("this broker is stopping")))

        while_asked(load_and_work()).add_done_callback(loaded)
        return wait
