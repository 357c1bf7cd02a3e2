"""Being a member: registered in ZooKeeper and in the race for controller, anew after every lost session."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from ottla.broker.controller.api import ControllerApi
from ottla.broker.controller.control_loop import ControllerPolicy
from ottla.broker.controller.election_loop import ElectionLoop
from ottla.broker.data_trust import DataTrust
from ottla.broker.peers import Identity, probe
from ottla.broker.storage.data_folder.shutdown_marker import current_boot_id
from ottla.net.retry import backoff
from ottla.wire.errors import OttlaError
from ottla.wire.messages import BrokerEndpoint, ListenerAddress
from ottla.wire.names import TopicPartition
from ottla.zk.lost_sessions import retry_when_lost
from ottla.zk.membership import read_data, register
from ottla.zk.operations import Stat
from ottla.zk.session.session import ZkSession
from ottla.zk.session.session_state import SessionState
from ottla.zk.watches import NodeWatch
from ottla.zk.znodes.brokers import BrokerDataZnode, BrokerZnode, DataState

logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 0.2, 10.0
PROBES = 5
"""How often a process that does not answer is asked before its registration is replaced: a busy one answers by then."""
STEADY_S = 60.0
"""A life that lasted so long did not flap: after it, registering anew is as quick as after the first."""


class MembershipLoop:
    """Owns a task from ``start`` to ``stop``. ``identity`` is who this broker is in its present life."""

    def __init__(
        self,
        session: ZkSession,
        broker: BrokerZnode,
        identity: Identity,
        endpoint: Callable[[int], BrokerEndpoint | None],
        policy: ControllerPolicy,
        on_term: Callable[[bool], None],
        trust: DataTrust,
    ) -> None:
        """``identity`` has no broker epoch yet: registering gives it one."""
        self._session = session
        self._broker = broker
        self._endpoint = endpoint
        self._policy = policy
        self._on_term = on_term
        self._trust = trust
        self._outdated = asyncio.Event()
        self._election: ElectionLoop | None = None
        self._own_znode = NodeWatch(session, BrokerZnode.path(broker.broker_id), self._own_znode_seen)
        self._task: asyncio.Task[None] | None = None
        self.identity = identity
        self.registered = False
        self.held = False
        """Whether records must not be taken yet, for others would count them: the loss of earlier ones was not acted on."""
        self.data = DataState.WHOLE
        """What was said at the last registration of the data folders."""
        self.lost_partitions: frozenset[TopicPartition] = frozenset()
        """The partitions whose records were said to be lost then, where the data folders as such are not."""
        self.on_fenced: list[Callable[[], None]] = []
        """All are called when this life of the broker is over, before the next one begins."""

    @property
    def has_losses(self) -> bool:
        """Whether the registration said that acknowledged records are missing for sure, in some partition or in all."""
        return self.data is DataState.LOST or bool(self.lost_partitions)

    def set_addresses(self, listeners: tuple[ListenerAddress, ...], inter_broker: str) -> None:
        """Where others find this broker; known once it listens, so before ``start``."""
        between = next(address for address in listeners if address.listener == inter_broker)
        self._broker = replace(self._broker, host=between.host, port=between.port, listeners=listeners)

    @property
    def controller(self) -> ControllerApi | None:
        """The controller, if it is on this broker."""
        controller = self._election.controller if self._election is not None else None
        return controller.api if controller is not None else None

    @property
    def unsure(self) -> bool:
        """Whether ZooKeeper may have given this broker up already: then another one may lead what it leads."""
        return not self._session.surely_alive()

    @property
    def is_cut_off(self) -> bool:
        """Whether the controller may tell this broker nothing: ZooKeeper may have given it up, or has."""
        return self.unsure or not self.registered

    def peer_lost(self, broker_id: int) -> None:
        """A connection from another broker ended."""
        if self._election is not None:
            self._election.peer_lost(broker_id)

    async def start(self) -> None:
        """Register for the first time: an error here, such as a broker id that is taken, ends the broker.

        A connection or a session that is lost meanwhile is no such error: the broker waits for the next one.
        """
        self._session.subscribe(self._session_changed)
        await retry_when_lost(self._session, self._join)
        await self._own_znode.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="membership")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._own_znode.stop()
        await self._leave()

    def _session_changed(self, state: SessionState) -> None:
        logger.info("zookeeper session changed state=%s", state.name)
        if state is SessionState.EXPIRED:
            self.registered = False
            self._outdated.set()

    def _own_znode_seen(self, data: bytes | None, stat: Stat | None) -> None:
        """The controller fenced this broker if its registration is gone or somebody else's."""
        if not self.registered:
            return
        try:
            epoch = BrokerZnode.decode(self._broker.broker_id, data).broker_epoch if data is not None else None
        except OttlaError:
            epoch = None
        if epoch != self.identity.broker_epoch:
            logger.warning("broker was fenced broker=%d epoch=%d", self._broker.broker_id, self.identity.broker_epoch)
            self.registered = False
            self._give_everything_up()
            self._outdated.set()

    async def _run(self) -> None:
        waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
        joined_at = time.monotonic()
        while True:
            await self._outdated.wait()
            self._outdated.clear()
            await self._leave()
            if time.monotonic() - joined_at > STEADY_S:
                waits = backoff(FIRST_RETRY_S, LAST_RETRY_S)
            await asyncio.sleep(next(waits))  # a broker that flaps must not move leaders around all the time
            while not self._outdated.is_set():
                try:
                    await self._session.wait_connected()
                    await self._join()
                    joined_at = time.monotonic()
                    break
                except OttlaError as error:
                    logger.warning("broker registration failed error=%s", error)
                    await asyncio.sleep(next(waits))
                except Exception:  # a task that ended by itself would leave a broker that never comes back
                    logger.exception("broker registration failed")
                    await asyncio.sleep(next(waits))

    async def _join(self) -> None:
        """Register, and say what the data folders hold by what ZooKeeper knows of them [I14]."""
        self.data = self._trust.judge(await read_data(self._session, self._broker.broker_id))
        # Folders that are not what they should be bear no new stamp: the right ones may be put back yet.
        is_lost = self.data is DataState.LOST
        self.lost_partitions = frozenset() if is_lost else self._trust.lost_partitions()
        self.held = self.has_losses
        if self.held:
            self._give_everything_up()  # what this process did with them before, if it did anything, is over
        stamped = None if is_lost else await self._stamp()
        broker = replace(
            self._broker,
            timestamp_ms=int(time.time() * 1000),
            data=self.data,
            lost_partitions=tuple(sorted(map(str, self.lost_partitions))),
        )
        broker_epoch = await register(
            self._session, broker, incarnation=uuid.uuid4().hex, boot_id=current_boot_id(), data=stamped,
            still_runs=self._still_runs,
        )  # fmt: skip
        if is_lost:  # not before: a broker whose id is another's looks the same, and has lost nothing
            logger.error("the data of this broker is lost: %s", self._trust.why_lost)
        if stamped is not None:
            self._trust.confirmed(stamped)
        self.identity = replace(self.identity, broker_epoch=broker_epoch)
        self.registered = True
        self._election = ElectionLoop(self._session, self.identity, self._endpoint, self._policy, self._on_term)
        await self._election.start()

    async def _still_runs(self, other: BrokerZnode) -> bool:
        """Whether the process of a registration answers. If this one has its address by now, it is gone."""
        endpoint = BrokerEndpoint(other.broker_id, other.host, other.port)
        for _ in range(PROBES):
            found = await probe(endpoint, self.identity)
            if found.refused or found.answered:
                return found.answered and found.epoch == other.broker_epoch
        return False  # it is frozen or cut off; should it come back, its broker epoch is over

    def _give_everything_up(self) -> None:
        for fenced in self.on_fenced:
            try:
                fenced()
            except Exception:  # the others must not go on as if nothing had happened, nor this broker stay away
                logger.exception("something could not be given up broker=%d", self._broker.broker_id)

    async def _stamp(self) -> BrokerDataZnode | None:
        """What ZooKeeper is to know of the folders. A disk that takes no stamp is no reason not to serve what can be read."""
        try:
            return await asyncio.to_thread(self._trust.stamp)
        except OSError as error:
            logger.error("data folders were not stamped error=%s", error)
            return None

    async def _leave(self) -> None:
        self.registered = False
        election, self._election = self._election, None
        if election is not None:
            await election.stop()
