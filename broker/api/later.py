"""Answers that take a while: work that goes on even when the client that asked for it has hung up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.net.reply import Reply

_running: set[asyncio.Task[Reply]] = set()  # asyncio itself holds tasks only weakly


def later(work: Coroutine[Any, Any, Reply]) -> asyncio.Future[Reply]:
    """The answer that ``work`` will give. Cancelling the future does not stop the work in its middle."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return asyncio.shield(task)
