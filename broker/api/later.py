"""Answers that take a while."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from ottla.net.long_requests import note_shielded
from ottla.net.reply import Reply
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

_running: set[asyncio.Task[Reply]] = set()  # asyncio itself holds tasks only weakly


def later(work: Coroutine[Any, Any, Reply]) -> asyncio.Future[Reply]:
    """The answer that ``work`` will give. It goes on in its middle even when the client that asked for it has hung up."""
    task = while_asked(work)
    answer = asyncio.shield(task)
    note_shielded(answer, task)
    task.add_done_callback(partial(_ended, answer))
    return answer


def while_asked(work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
    """The same for what is wished of the controller: nothing more is begun for a client that has hung up."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def _ended(answer: asyncio.Future[Reply], task: asyncio.Task[Reply]) -> None:
    """Where nobody waits any more, nobody asks how it ended, which asyncio would call an error, with a traceback."""
    if answer.cancelled() and not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, OttlaError):
            logger.error("a request failed whose client has hung up", exc_info=error)
