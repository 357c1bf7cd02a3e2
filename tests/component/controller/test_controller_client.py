"""What a client is told that asked a broker for what only the controller does, and the controller cannot be had."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import controller_client
from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller_client import ask_controller
from ottla.broker.peers import Identity
from ottla.wire.admin import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.control import UpdateMetadataRequest
from ottla.wire.errors import ClientTimeout, NotController, RequestTimedOut
from ottla.wire.messages import BrokerEndpoint

ME, CONTROLLER = 1, 2


def _view(port: int) -> ClusterView:
    view = ClusterView("c")
    brokers = [BrokerEndpoint(ME, "127.0.0.1", 1), BrokerEndpoint(CONTROLLER, "127.0.0.1", port)]
    view.update(UpdateMetadataRequest(CONTROLLER, 1, 1, True, brokers, [], [], [], 1))
    return view


async def _ask(port: int) -> Any:
    me: Any = SimpleNamespace(identity=Identity(ME, 1, "c", "secret"), controller=None)
    return await ask_controller(me, _view(port), AlterConfigsRequest([], 1000), AlterConfigsResponse, 1.0)


async def test_controller_that_cannot_be_reached_is_none_and_the_client_asks_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotController, match=r"broker 2, cannot be reached: .*refused") as told:
        await _ask(port)
    assert told.value.retriable


async def test_controller_that_does_not_answer_may_have_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        closed = False

        async def ask(self, *asked: object) -> None:
            raise ClientTimeout("nothing")

        async def close(self) -> None:
            self.closed = True

    channel = Silent()

    async def connected(*to: object) -> Silent:
        return channel

    monkeypatch.setattr(controller_client, "connect_as_broker", connected)
    with pytest.raises(RequestTimedOut, match="does not answer"):
        await _ask(1)
    assert channel.closed
