"""Requests that go on though their client has hung up: how they end is nobody's business, unless it is a bug."""

import asyncio
import logging
from typing import Any

import pytest

from ottla.broker.api.later import later
from ottla.net.reply import LaterFromFuture, Reply
from ottla.wire.errors import UnknownMemberId


async def _abandoned(error: Exception) -> list[Any]:
    """What asyncio complains of when a request fails after its client has hung up."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def work() -> Reply:
        await asyncio.sleep(0.01)
        raise error

    LaterFromFuture(later(work())).abandon()
    await asyncio.sleep(0.05)
    return complaints


async def test_an_error_that_a_client_would_have_been_told_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert await _abandoned(UnknownMemberId("nobody")) == []
    assert not caplog.records


async def test_a_bug_is_told_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    assert await _abandoned(ZeroDivisionError("a bug")) == []
    assert "ZeroDivisionError" in caplog.text
