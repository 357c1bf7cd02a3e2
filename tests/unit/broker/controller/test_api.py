"""How long whoever asks something of the controller waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest

from ottla.broker.controller.api import Asked, ControllerApi
from ottla.broker.controller.decisions.actions import Action
from ottla.broker.controller.decisions.cluster import Topic
from ottla.broker.controller.decisions.state import ControllerState
from ottla.broker.controller.events import Cause, Events
from ottla.broker.controller.executor import Executor
from ottla.broker.controller.links import Links, OrderAnswers
from ottla.broker.controller.removals import Removals
from ottla.wire.admin import TOPIC_RESOURCE, ConfigReplacement
from ottla.wire.errors import RequestTimedOut, UnknownTopicOrPartition
from tests.support.machine import scaled

SLOW_S, TIMEOUT_S = 0.4, 0.5


class SlowExecutor:
    """Takes nearly all the time that there is, and then brokers do not hear of it."""

    async def act(self, actions: Iterable[Action], cause: Cause) -> OrderAnswers:
        await asyncio.sleep(SLOW_S)
        return [asyncio.get_running_loop().create_future()]


@pytest.fixture
async def api() -> AsyncIterator[ControllerApi]:
    state, events = ControllerState(1, 7), Events(7)
    state.topics["t"] = Topic("id", {}, {0: (1,)}, {})

    async def deal() -> None:
        while True:
            await (await events.next()).deal()

    dealing = asyncio.create_task(deal())
    links = Links(cast(Any, None))
    yield ControllerApi(state, cast(Executor, SlowExecutor()), events, Removals(), links)
    dealing.cancel()


async def change(api: ControllerApi, asked: Asked) -> Any:
    return await api.replace_config(ConfigReplacement(TOPIC_RESOURCE, "t", {}), asked)


async def test_time_is_over_once_and_not_once_for_each_step(api: ControllerApi) -> None:
    """Or the answer would come when whoever asked waits for it no more."""
    began = time.monotonic()
    await change(api, Asked("a test", TIMEOUT_S))
    assert SLOW_S <= time.monotonic() - began < TIMEOUT_S + SLOW_S / 2


async def test_a_deletion_is_waited_for_no_longer_than_that_either(api: ControllerApi) -> None:
    began = time.monotonic()
    with pytest.raises(RequestTimedOut, match="still being deleted"):
        await api.delete_topic("t", Asked("a test", TIMEOUT_S))
    assert time.monotonic() - began < TIMEOUT_S + SLOW_S / 2


async def test_who_does_not_wait_for_brokers_hears_what_was_decided_at_once(api: ControllerApi) -> None:
    """However much was asked of the controller before."""
    asked = Asked("a test", scaled(60.0), waits_for_brokers=False)
    await asyncio.wait_for(asyncio.gather(change(api, asked), api.delete_topic("t", asked)), scaled(20.0))
    with pytest.raises(UnknownTopicOrPartition):
        await asyncio.wait_for(api.delete_topic("nowhere", asked), scaled(20.0))


async def test_it_is_told_whether_it_was_begun_in_time(api: ControllerApi) -> None:
    asked = Asked("a test", SLOW_S / 2)
    outcomes = await asyncio.gather(change(api, asked), change(api, asked), return_exceptions=True)
    assert "is still at it" in str(outcomes[0])
    assert "did not get to it" in str(outcomes[1])
