"""Connecting, as a task of its own that outlives whoever waits for it."""

import asyncio

from ottla.net.channel import Channel, connect


async def connect_unhurried(host: str, port: int, *, client_id: str, timeout_s: float) -> Channel:
    """As ``connect``, but a caller that is cancelled does not cancel the connecting; what comes of it is then hung up on.

    uvloop leaves a transport that is cancelled in the middle without a connection_lost, and closing it would wait for that.
    """
    connecting = asyncio.ensure_future(connect(host, port, client_id=client_id, timeout_s=timeout_s))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_hang_up_when_made)
        raise


def _hang_up_when_made(connecting: asyncio.Future[Channel]) -> None:
    # At once and not in a task: the event loop may be about to end, and would complain of one that is left behind.
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()
