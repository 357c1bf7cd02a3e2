"""The handshake, on the side of the broker that calls: it believes nobody who cannot prove to be whom it called."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import peers
from ottla.broker.peers import Handshakes, Identity, Side, connect_as_broker
from ottla.wire.control import BrokerHandshakeRequest, BrokerHandshakeResponse
from ottla.wire.errors import BrokerNotAvailable, ClusterAuthorizationFailed, OttlaError
from ottla.wire.messages import BrokerEndpoint

SECRET = "ab" * 32
CALLER = Identity(1, 5, "c", SECRET)
TO = BrokerEndpoint(2, "broker", 9092, None)


class Called:
    """Whoever answers at the address: broker 2 in its life 7, if it knows the secret."""

    def __init__(self, secret: str = SECRET, broker_id: int = 2, *, echoes: bool = False) -> None:
        self._handshakes = Handshakes()
        nonce = self._handshakes.challenge("this connection")
        self.peer = SimpleNamespace(broker_id=broker_id, broker_epoch=7, nonce=nonce)
        self.closed = False
        self._identity = Identity(2, 7, "c", secret)
        self._echoes = echoes

    async def ask(self, request: BrokerHandshakeRequest, kind: Any, timeout_s: float) -> BrokerHandshakeResponse:
        if self._echoes:
            return BrokerHandshakeResponse(request.proof)
        answer = self._handshakes.answer(self._identity, request, "this connection")
        return answer or BrokerHandshakeResponse(b"x" * 32)

    async def close(self) -> None:
        self.closed = True


async def call(called: Called, monkeypatch: pytest.MonkeyPatch) -> object:
    async def connect(*args: Any, **options: Any) -> Called:
        return called

    monkeypatch.setattr(peers, "connect", connect)
    return await connect_as_broker(CALLER, TO)


async def test_broker_that_proves_itself_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Called()
    assert await call(called, monkeypatch) is called
    assert not called.closed


@pytest.mark.parametrize(
    ("called", "error"),
    [
        (Called(secret="cd" * 32), ClusterAuthorizationFailed),
        (Called(echoes=True), ClusterAuthorizationFailed),
        (Called(broker_id=3), BrokerNotAvailable),
    ],
    ids=["does not know the secret", "sends our own proof back", "is another broker"],
)
async def test_whoever_does_not_is_hung_up_on(
    called: Called, error: type[OttlaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error):
        await call(called, monkeypatch)
    assert called.closed


def test_proofs_of_the_two_sides_differ() -> None:
    encounter = peers.Encounter((1, 5), (2, 7), b"c" * 16, b"n" * 16)
    assert encounter.proof(SECRET, Side.CALLING) != encounter.proof(SECRET, Side.CALLED)
