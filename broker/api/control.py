"""What brokers ask of each other: the handshake that proves a broker, and the controller's orders."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.api.later import later
from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller.claims import ControllerClaims
from ottla.broker.metadata_snapshot import MetadataSnapshot
from ottla.broker.peers import PATIENT_PROBE_TIMEOUT_S, BrokerPrincipal, Handshakes, Identity, probe
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.control import (
    BrokerHandshakeRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Order,
    PeerMetadataRequest,
    PeerMetadataResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WitnessRequest,
    WitnessResponse,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import BrokerNotAvailable, ClusterAuthorizationFailed, StaleBrokerEpoch
from ottla.wire.messages import Done, PartitionName

logger = logging.getLogger(__name__)


class ControlHandlers:
    """Obeys the controller, and nobody else.

    Invariant: an order is obeyed only from a proven broker, of the newest controller epoch seen, and meant for this life
    of this broker; so neither a replaced controller nor a message from before a restart can do anything.
    """

    def __init__(
        self,
        identity: Callable[[], Identity],
        handshakes: Handshakes,
        partitions: Partitions,
        view: ClusterView,
        claims: ControllerClaims,
        is_cut_off: Callable[[], bool],
    ) -> None:
        """``is_cut_off``: whether ZooKeeper may have given this broker up, so that the controller tells it nothing."""
        self._is_cut_off = is_cut_off
        self._identity = identity
        self._handshakes = handshakes
        self._partitions = partitions
        self._view = view
        self._snapshot = MetadataSnapshot(view)
        self._claims = claims

    def handshake(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, BrokerHandshakeRequest)
        answer = self._handshakes.answer(self._identity(), request, connection)
        if answer is None:
            connection.refuse(f"it claimed to be broker {request.broker_id} and could not prove it")
            raise ClusterAuthorizationFailed("the proof is wrong")
        connection.principal = BrokerPrincipal(request.broker_id)
        return Reply(answer)

    def witness(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        """Probe another broker and answer whether it is reachable."""
        request = incoming.message
        assert isinstance(request, WitnessRequest)
        return later(self._probe(request.broker_id))

    async def _probe(self, broker_id: int) -> Reply:
        endpoint = self._view.endpoint(broker_id)
        if endpoint is None:
            raise BrokerNotAvailable(f"the address of broker {broker_id} is not known here")
        found = await probe(endpoint, self._identity(), PATIENT_PROBE_TIMEOUT_S)
        return Reply(WitnessResponse(found.answered))

    def peer_metadata(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        """Tell a broker that is cut off from ZooKeeper what this one knows, if that is newer."""
        request = incoming.message
        assert isinstance(request, PeerMetadataRequest)
        return Reply(PeerMetadataResponse(not self._is_cut_off(), self._snapshot.piece(request.version, request.piece)))

    def leader_and_isr(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, LeaderAndIsrRequest)
        return later(self._obey(request, self._lead_or_follow(request)))

    def stop_replica(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, StopReplicaRequest)
        return later(self._obey(request, self._stop(request)))

    def update_metadata(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, UpdateMetadataRequest)
        return later(self._obey(request, self._learn(request)))

    async def _lead_or_follow(self, request: LeaderAndIsrRequest) -> Reply:
        failed = await self._partitions.apply(request.partitions, request.topics, request.broker_epoch)
        return Reply(LeaderAndIsrResponse([PartitionName(*where) for where in failed]))

    async def _stop(self, request: StopReplicaRequest) -> Reply:
        await self._partitions.stop(request.parts)
        return Reply(Done())

    async def _learn(self, request: UpdateMetadataRequest) -> Reply:
        self._view.update(request)
        self._partitions.configure(request.topics)
        return Reply(Done())

    async def _obey(self, request: Order, work: Coroutine[Any, Any, Reply]) -> Reply:
        try:
            self._check_life(request)
            if not self._claims.are_known(request.controller_id, request.controller_epoch):
                await self._claims.check(request.controller_id, request.controller_epoch)
                self._check_life(request)  # this life may have ended while ZooKeeper was asked
        except BaseException:
            work.close()
            raise
        reply = await work
        # What everybody is told, whatever happens anywhere, is no change of state here.
        level = logging.DEBUG if isinstance(request, UpdateMetadataRequest) else logging.INFO
        logger.log(level, "order obeyed api=%s cause=%s", request.api.name, request.cause)
        return reply

    def _check_life(self, request: Order) -> None:
        epoch = self._identity().broker_epoch
        if request.broker_epoch > epoch:
            # The controller has seen our registration in ZooKeeper before its answer has reached us.
            raise BrokerNotAvailable("this broker is about to begin the life that is meant; say it again")
        if request.broker_epoch != epoch:
            raise StaleBrokerEpoch(f"meant for broker epoch {request.broker_epoch}; this is {epoch}")
