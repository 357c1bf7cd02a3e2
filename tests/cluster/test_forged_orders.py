"""What only brokers may do, tried by others: refused, with no effect (T14, T15)."""

import pytest
from msgspec.structs import replace

from ottla.broker.peers import NONCE_BYTES, Encounter, Side
from ottla.wire.control import (
    BrokerHandshakeRequest,
    BrokerHandshakeResponse,
    LeaderAndIsrRequest,
    PartitionState,
    StopReplicaPart,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from ottla.wire.errors import BrokerNotAvailable, ClusterAuthorizationFailed, StaleBrokerEpoch, StaleControllerEpoch
from ottla.wire.messages import BrokerEndpoint, Request
from ottla.wire.requests import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchPart,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
)
from ottla.zk.election import read_controller
from ottla.zk.membership import cluster_secret
from ottla.zk.session.session import ZkSession
from tests.conftest import OpenSession
from tests.support.broker_requests import handshake, shake_hands
from tests.support.raw_client import Hung, RawClient
from tests.support.victim import Victim

pytestmark = pytest.mark.cluster

EPOCH_MAX = 2**31 - 1


def topic_id(victim: Victim) -> str:
    with victim.connect() as client:
        return client.ask(MetadataRequest(["target"]), MetadataResponse).topics[0].topic_id


def orders(
    victim: Victim, controller_id: int = 0, epoch: int = EPOCH_MAX, broker_epoch: int = EPOCH_MAX
) -> list[Request]:
    """Orders that would take the target away, spoil the metadata, or poison the epochs."""
    name = topic_id(victim)
    state = PartitionState("target", name, 0, 66, EPOCH_MAX, [66], [66], EPOCH_MAX, 1, [])
    config = TopicConfig("target", name, {"retention.ms": "1"})
    elsewhere = BrokerEndpoint(0, "evil.example", 1)
    return [
        LeaderAndIsrRequest(controller_id, epoch, broker_epoch, [state], [config]),
        UpdateMetadataRequest(controller_id, epoch, broker_epoch, True, [elsewhere], [config], [state], ["healthy"]),
        StopReplicaRequest(controller_id, epoch, broker_epoch, [StopReplicaPart("target", name, 0, EPOCH_MAX, True)]),
    ]


def nonce_of(client: RawClient) -> bytes:
    return client.ask(ApiVersionsRequest("attacker"), ApiVersionsResponse).nonce


@pytest.mark.parametrize("replica_id", [0, 1, 2, 2**31 - 1, -2, -(2**63)])
def test_a_forged_follower_fetch_is_refused(unharmed: Victim, replica_id: int) -> None:
    for topic in ("bulk", "target"):
        with unharmed.connect() as client:
            request = FetchRequest(0, 0, 1000, [FetchPart(topic, 0, 0, 1000)], replica_id, 0)
            assert client.error_of(request) is ClusterAuthorizationFailed
            assert client.closed() == b""


@pytest.mark.parametrize("number", range(3), ids=["LeaderAndIsr", "UpdateMetadata", "StopReplica"])
def test_an_order_from_a_client_is_refused_and_changes_nothing(unharmed: Victim, number: int) -> None:
    with unharmed.connect() as client:
        before = client.ask(MetadataRequest(None), MetadataResponse)
    for epoch in (0, 1, EPOCH_MAX):
        with unharmed.connect() as client:
            nonce_of(client)
            assert client.error_of(orders(unharmed, epoch=epoch)[number]) is ClusterAuthorizationFailed
            assert client.closed() == b"", "a cheat is hung up on"
    with unharmed.connect() as client:
        after = client.ask(MetadataRequest(None), MetadataResponse)
    assert (after.brokers, after.controller) == (before.brokers, before.controller)
    assert {topic.name: topic for topic in after.topics} == {topic.name: topic for topic in before.topics}


@pytest.mark.parametrize(
    "guess",
    [b"", bytes(32), bytes(31), b"x" * 10_000, Encounter((0, 0), (0, 0), b"", b"").proof("00" * 32, Side.CALLING)],
    ids=["empty", "zeros", "short", "long", "key 0"],
)
def test_a_wrong_proof_is_refused_and_leaves_the_peer_a_client(unharmed: Victim, guess: bytes) -> None:
    with unharmed.connect() as client:
        nonce_of(client)
        request = BrokerHandshakeRequest(0, 0, 0, 0, bytes(NONCE_BYTES), guess)
        assert client.error_of(request) is ClusterAuthorizationFailed
        with pytest.raises(Hung):
            client.error_of(orders(unharmed)[0])


async def _session(victim: Victim, open_session: OpenSession) -> ZkSession:
    """As somebody who has got hold of the brokers' password."""
    return await open_session(victim.cluster.zookeeper, digest=victim.cluster.zookeeper_digest)


async def _secret(victim: Victim, open_session: OpenSession) -> str:
    return await cluster_secret(await _session(victim, open_session))


async def test_a_proof_counts_for_one_connection_and_one_broker_only(victim: Victim, open_session: OpenSession) -> None:
    secret = await _secret(victim, open_session)
    with victim.unharmed():
        with victim.connect() as insider:
            good = handshake(insider, secret, 0, 5)
            insider.ask(good, BrokerHandshakeResponse)
            # The same proof again, on the connection that it was made for: its nonce is used up.
            assert insider.error_of(good) is ClusterAuthorizationFailed
        with victim.connect() as other:
            nonce_of(other)
            assert other.error_of(good) is ClusterAuthorizationFailed
        with victim.connect() as unasked:  # no nonce was ever given here
            encounter = Encounter((0, 5), (good.to_broker, good.to_epoch), good.nonce, b"")
            request = replace(good, proof=encounter.proof(secret, Side.CALLING))
            assert unasked.error_of(request) is ClusterAuthorizationFailed
        elsewhere = good.to_broker + 1
        for wrong in (
            {"broker_id": 1},
            {"broker_epoch": 6},
            {"to_broker": elsewhere},
            {"to_epoch": 99},
            {"nonce": b"x" * 16},
        ):
            with victim.connect() as pretender:  # the proof names both sides
                assert (
                    pretender.error_of(replace(handshake(pretender, secret, 0, 5), **wrong))
                    is ClusterAuthorizationFailed
                )


async def test_a_proof_for_another_broker_or_of_the_other_side_is_refused(
    victim: Victim, open_session: OpenSession
) -> None:
    secret = await _secret(victim, open_session)
    with victim.unharmed():
        for called, side in ((1, Side.CALLING), (0, Side.CALLED)):  # relayed to us, or sent back to where it came from
            with victim.connect() as client:
                good = handshake(client, secret, 7, 5)
                nonce = nonce_of(client)
                encounter = Encounter((7, 5), (good.to_broker + called, good.to_epoch), good.nonce, nonce)
                request = BrokerHandshakeRequest(
                    *encounter.caller, *encounter.called, good.nonce, encounter.proof(secret, side)
                )
                assert client.error_of(request) is ClusterAuthorizationFailed


async def test_a_broker_that_is_called_proves_itself_too(victim: Victim, open_session: OpenSession) -> None:
    secret = await _secret(victim, open_session)
    with victim.unharmed(), victim.connect() as client:
        request = handshake(client, secret, 7, 5)
        nonce = nonce_of(client)
        answer = client.ask(request, BrokerHandshakeResponse)
        encounter = Encounter((7, 5), (request.to_broker, request.to_epoch), request.nonce, nonce)
        assert encounter.proves(secret, Side.CALLED, answer.proof)
        assert not encounter.proves(secret, Side.CALLED, request.proof)


async def test_a_proven_broker_that_claims_a_controller_epoch_which_never_was_is_not_obeyed(
    victim: Victim, open_session: OpenSession
) -> None:
    secret = await _secret(victim, open_session)
    with victim.unharmed():
        for number in range(3):
            with victim.connect() as insider:
                request = handshake(insider, secret, 7, 1)
                insider.ask(request, BrokerHandshakeResponse)
                forged = orders(victim, controller_id=7, broker_epoch=request.to_epoch)[number]
                assert insider.error_of(forged) is ClusterAuthorizationFailed
                now = (
                    await read_controller(
                        await open_session(victim.cluster.zookeeper, digest=victim.cluster.zookeeper_digest)
                    )
                ).epoch
                meddling = orders(victim, controller_id=7, epoch=now, broker_epoch=request.to_epoch)[number]
                assert insider.error_of(meddling) is StaleControllerEpoch, "somebody else is the controller"
    victim.create_topic_works()


async def test_a_proven_broker_speaks_for_itself_and_for_this_life_only(
    victim: Victim, open_session: OpenSession
) -> None:
    secret = await _secret(victim, open_session)
    with victim.unharmed():
        for number in range(3):
            with victim.connect() as insider:
                shake_hands(insider, secret, 7, 1)
                life = insider.ask(ApiVersionsRequest("test"), ApiVersionsResponse).broker_epoch
                past = orders(victim, controller_id=7, broker_epoch=-5)[number]
                assert insider.error_of(past) is StaleBrokerEpoch
                future = orders(victim, controller_id=7)[number]
                assert insider.error_of(future) is BrokerNotAvailable, "meant for a life that has not begun"
                replaced = orders(victim, controller_id=7, epoch=0, broker_epoch=life)[number]
                assert insider.error_of(replaced) is StaleControllerEpoch
                assert insider.error_of(orders(victim, controller_id=0)[number]) is ClusterAuthorizationFailed
    # Invariant: an order that was refused moves no epoch: the true controller is still obeyed.
    victim.create_topic_works()
