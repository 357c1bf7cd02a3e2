"""How brokers prove themselves to each other: a secret that only the cluster's ZooKeeper knows, and a nonce per connection."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import NamedTuple

from ottla.net.channel import Channel, connect
from ottla.wire.control import BrokerHandshakeRequest
from ottla.wire.errors import BrokerRefused, OttlaError
from ottla.wire.messages import BrokerEndpoint, Done
from ottla.wire.names import NO_EPOCH

HANDSHAKE_TIMEOUT_S = 5.0

PROBE_TIMEOUT_S = 0.15
"""A live broker on a live network answers within a few milliseconds; one that does not is at least in trouble."""


@dataclass(frozen=True)
class Identity:
    """Who this broker is in this life of its."""

    broker_id: int
    broker_epoch: int
    cluster_id: str
    secret: str

    def __repr__(self) -> str:  # the secret must never get into a log
        return f"Identity(broker_id={self.broker_id}, broker_epoch={self.broker_epoch})"


def proof(secret: str, nonce: bytes, broker_id: int, broker_epoch: int) -> bytes:
    """What a broker answers to a nonce."""
    message = nonce + f":{broker_id}:{broker_epoch}".encode()
    return hmac.new(bytes.fromhex(secret), message, hashlib.sha256).digest()


def proves(secret: str, nonce: bytes, request: BrokerHandshakeRequest) -> bool:
    """Whether a handshake is by somebody who knows the secret. A connection that was given no nonce can prove nothing."""
    return bool(nonce) and hmac.compare_digest(
        proof(secret, nonce, request.broker_id, request.broker_epoch), request.proof
    )


async def connect_as_broker(
    identity: Identity, to: BrokerEndpoint, timeout_s: float = HANDSHAKE_TIMEOUT_S, *, borrow: bool = False
) -> Channel:
    """A connection to another broker on which this one has proven itself."""
    client_id = f"broker-{identity.broker_id}"
    channel = await connect(to.host, to.port, client_id=client_id, timeout_s=timeout_s, borrow=borrow)
    try:
        assert channel.peer is not None
        answer = proof(identity.secret, channel.peer.nonce, identity.broker_id, identity.broker_epoch)
        request = BrokerHandshakeRequest(identity.broker_id, identity.broker_epoch, answer)
        await channel.ask(request, Done, timeout_s)
    except BaseException:
        await channel.close()
        raise
    return channel


class Probe(NamedTuple):
    """What knocking at a broker's door found."""

    refused: bool
    """The machine lives and nobody listens there: the process is gone."""
    answered: bool = False
    epoch: int = NO_EPOCH
    """Which life of the broker answered; NO_EPOCH if none did, or one that is not registered yet."""


async def probe(broker: BrokerEndpoint, by: Identity) -> Probe:
    """Knock once."""
    try:
        client_id = f"probe-of-broker-{by.broker_id}"
        channel = await connect(broker.host, broker.port, client_id=client_id, timeout_s=PROBE_TIMEOUT_S)
    except BrokerRefused:
        return Probe(refused=True)
    except OttlaError:
        return Probe(refused=False)
    peer = channel.peer
    await channel.close()
    if peer is None or peer.broker_id != broker.id:
        return Probe(refused=True)  # somebody else has its address by now
    return Probe(refused=False, answered=True, epoch=peer.broker_epoch)
