"""How brokers prove themselves to each other: a secret that only the cluster's ZooKeeper knows, and a nonce of either side."""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ottla.net.channel import Channel, connect
from ottla.net.principal import Principal
from ottla.net.socket_options import BROKER_SILENCE_MAX_MS
from ottla.wire.control import BrokerHandshakeRequest, BrokerHandshakeResponse
from ottla.wire.errors import (
    BrokerNotAvailable,
    BrokerRefused,
    ClusterAuthorizationFailed,
    NetworkException,
    OttlaError,
)
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import NO_EPOCH

HANDSHAKE_TIMEOUT_S = 5.0

PROBE_TIMEOUT_S = 0.15
"""A live broker on a live network answers within a few milliseconds; one that does not is at least in trouble."""

PATIENT_PROBE_TIMEOUT_S = 0.5
"""For a probe by which a broker may lose its leaders: a busy one answers in this time."""

KNOCKS, KNOCK_AGAIN_S = 4, 0.02
"""How often to knock where one is let in and thrown out, and how long to wait in between: a process is gone by then, and a
broker that has no room for another connection was not bothered much."""


@dataclass(frozen=True)
class Identity:
    """Who this broker is in this life of its."""

    broker_id: int
    broker_epoch: int
    cluster_id: str
    secret: str

    def __repr__(self) -> str:  # the secret must never get into a log
        return f"Identity(broker_id={self.broker_id}, broker_epoch={self.broker_epoch})"


class BrokerPrincipal(Principal):
    """A peer that has proven to be a broker of this cluster."""

    __slots__ = ("broker_id",)

    def __init__(self, broker_id: int) -> None:
        super().__init__("Broker", str(broker_id))
        self.broker_id = broker_id


NONCE_BYTES = 16


class Side(StrEnum):
    """Who speaks: what one side has proven can never be sent back as the other's proof."""

    CALLING = "the broker that calls"
    CALLED = "the broker that is called"


@dataclass(frozen=True)
class Encounter:
    """Two lives of two brokers on one connection, each with a nonce that is used once."""

    caller: tuple[int, int]
    """Broker id and broker epoch."""
    called: tuple[int, int]
    caller_nonce: bytes
    called_nonce: bytes

    def proof(self, secret: str, side: Side) -> bytes:
        """What only somebody who knows the secret can say, on this side of this very encounter."""
        who = f"ottla:{side}:{self.caller[0]}:{self.caller[1]}:{self.called[0]}:{self.called[1]}:".encode()
        nonces = len(self.caller_nonce).to_bytes(2) + self.caller_nonce + self.called_nonce
        return hmac.new(bytes.fromhex(secret), who + nonces, hashlib.sha256).digest()

    def proves(self, secret: str, side: Side, proof: bytes) -> bool:
        """Whether a proof is right. Without a nonce of our own it could be an old one, so it proves nothing."""
        own_nonce = self.called_nonce if side is Side.CALLING else self.caller_nonce
        return len(own_nonce) >= NONCE_BYTES and hmac.compare_digest(self.proof(secret, side), proof)


class Handshakes:
    """The called side: a nonce for every connection that asks who we are, good for one attempt to prove who asks."""

    def __init__(self) -> None:
        self._nonces: dict[Hashable, bytes] = {}

    def challenge(self, connection: Hashable) -> bytes:
        """What a broker must sign to prove itself over this connection."""
        return self._nonces.setdefault(connection, secrets.token_bytes(NONCE_BYTES))

    def closed(self, connection: Hashable) -> None:
        """A connection has ended."""
        self._nonces.pop(connection, None)

    def answer(
        self, me: Identity, request: BrokerHandshakeRequest, connection: Hashable
    ) -> BrokerHandshakeResponse | None:
        """Our own proof to a broker that has proven itself; None if it has not."""
        called = (request.to_broker, request.to_epoch)
        caller = (request.broker_id, request.broker_epoch)
        encounter = Encounter(caller, called, request.nonce, self._nonces.pop(connection, b""))
        if not encounter.proves(me.secret, Side.CALLING, request.proof) or request.to_broker != me.broker_id:
            return None
        return BrokerHandshakeResponse(encounter.proof(me.secret, Side.CALLED))


async def connect_as_broker(
    identity: Identity, to: BrokerEndpoint, timeout_s: float = HANDSHAKE_TIMEOUT_S, *, borrow: bool = False
) -> Channel:
    """A connection to another broker on which both have proven themselves."""
    client_id = f"broker-{identity.broker_id}"
    channel = await connect(
        to.host, to.port, client_id=client_id, timeout_s=timeout_s, borrow=borrow, silence_max_ms=BROKER_SILENCE_MAX_MS
    )
    try:
        await _shake_hands(channel, identity, to, timeout_s)
    except BaseException:
        await channel.close()
        raise
    return channel


async def _shake_hands(channel: Channel, me: Identity, to: BrokerEndpoint, timeout_s: float) -> None:
    peer = channel.peer
    assert peer is not None
    if peer.broker_id != to.id:
        raise BrokerNotAvailable(f"broker {peer.broker_id} is at {to.host}:{to.port}, where broker {to.id} should be")
    own = (me.broker_id, me.broker_epoch)
    encounter = Encounter(own, (to.id, peer.broker_epoch), secrets.token_bytes(NONCE_BYTES), peer.nonce)
    request = BrokerHandshakeRequest(
        *encounter.caller, *encounter.called, encounter.caller_nonce, encounter.proof(me.secret, Side.CALLING)
    )
    answer = await channel.ask(request, BrokerHandshakeResponse, timeout_s)
    if not encounter.proves(me.secret, Side.CALLED, answer.proof):
        raise ClusterAuthorizationFailed(
            f"whoever is at {to.host}:{to.port} could not prove to be broker {to.id} of this cluster"
        )


class Probe(NamedTuple):
    """What knocking at a broker's door found."""

    refused: bool
    """The machine lives and nobody listens there: the process is gone."""
    answered: bool = False
    epoch: int = NO_EPOCH
    """Which life of the broker answered; NO_EPOCH if none did, or one that is not registered yet."""


async def probe(broker: BrokerEndpoint, by: Identity, timeout_s: float = PROBE_TIMEOUT_S) -> Probe:
    """Knock; and again where the door was open and nobody came to it.

    The kernel takes a dead process's connections away one by one, and what it listens with perhaps after those that others see
    ending. Who knocks in between is let in and thrown out, and must not take that for life.
    """
    for _ in range(KNOCKS - 1):
        try:
            return await _knock(broker, by, timeout_s)
        except NetworkException:
            await asyncio.sleep(KNOCK_AGAIN_S)
    try:
        return await _knock(broker, by, timeout_s)
    except NetworkException:
        return Probe(refused=False)


async def _knock(broker: BrokerEndpoint, by: Identity, timeout_s: float) -> Probe:
    """NetworkException if the connection was made, and ended before anybody spoke."""
    try:
        client_id = f"probe-of-broker-{by.broker_id}"
        channel = await connect(
            broker.host, broker.port, client_id=client_id, timeout_s=timeout_s, silence_max_ms=BROKER_SILENCE_MAX_MS
        )
    except BrokerRefused:
        return Probe(refused=True)
    except NetworkException:
        raise
    except OttlaError:
        return Probe(refused=False)
    peer = channel.peer
    await channel.close()
    if peer is None or peer.broker_id != broker.id:
        return Probe(refused=True)  # somebody else has its address by now
    return Probe(refused=False, answered=True, epoch=peer.broker_epoch)
