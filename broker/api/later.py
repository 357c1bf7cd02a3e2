"""Answers that take a while."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.net.reply import Reply

_running: set[asyncio.Task[Reply]] = set()  # asyncio itself holds tasks only weakly


def later(work: Coroutine[Any, Any, Reply]) -> asyncio.Future[Reply]:
    """The answer that ``work`` will give. It goes on in its middle even when the client that asked for it has hung up."""
    return asyncio.shield(while_asked(work))


def while_asked(work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
    """The same for what is wished of the controller: nothing more is begun for a client that has hung up."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task
