"""Brokers come and go: registration, fencing, what their disks must hold, and what the whole cluster shares from its start.

Two znodes make a broker a member, written in one multi: /brokers/epochs/<id> stays, and its version is the broker epoch;
/brokers/ids/<id> lives as long as the session. Every registration and every fence bumps the epoch, so a check of it in a
multi tells one life of a broker from the next.
"""

import asyncio
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ottla.wire.errors import OttlaError, StaleBrokerEpoch
from ottla.zk.election import ControllerTerm, fenced_multi
from ottla.zk.errors import BadVersion, ConnectionLost, MultiFailed, NodeExists, NoNode, SessionExpired
from ottla.zk.operations import Check, Create, Delete, Operation, SetData, Stat
from ottla.zk.session.session import ZkSession
from ottla.zk.tree_acl import close_root, warn_if_open
from ottla.zk.znodes.brokers import BrokerDataZnode, BrokerEpochZnode, BrokerState, BrokerZnode
from ottla.zk.znodes.cluster import ClusterIdZnode, SecretZnode
from ottla.zk.znodes.json_fields import MalformedZnode
from ottla.zk.znodes.persistent_paths import PERSISTENT_PATHS
from ottla.zk.znodes.uuids import uuid_to_text

logger = logging.getLogger(__name__)

# Beyond one session timeout the znode of a dead broker must be gone; ZooKeeper rounds up to its next tick.
_WAIT_MARGIN_S = 1.0

ANY_VERSION = -1

StillRuns = Callable[[BrokerZnode], Awaitable[bool]]
"""Whether the process of a registration answers, in the very incarnation that is registered."""


class DuplicateBrokerId(OttlaError):
    """Another live broker has this broker id."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Both znodes of a broker id as they were read; ``other`` is whoever is registered, None if nobody is."""

    epoch: BrokerEpochZnode
    epoch_version: int
    other: BrokerZnode | None
    other_stat: Stat | None


async def ensure_persistent_paths(session: ZkSession) -> None:
    """Make sure of the znodes that every cluster has."""
    if session.sets_acl:
        await close_root(session)
    present = await asyncio.gather(*(session.exists(path) for path in PERSISTENT_PATHS))
    for path, stat in zip(PERSISTENT_PATHS, present, strict=True):
        if stat is None:
            await session.create_if_missing(path)


async def register(
    session: ZkSession,
    broker: BrokerZnode,
    *,
    incarnation: str,
    boot_id: str,
    data: BrokerDataZnode | None = None,
    still_runs: StillRuns | None = None,
) -> int:
    """Make this broker a member and give its new broker epoch; ``data`` is what its folders must hold from now on, if given.

    ``broker.uuid`` names the data folder: a registration that an earlier life of the same folder left behind is replaced at
    once, but if ``still_runs`` says that its process answers, one of the two folders is a copy: DuplicateBrokerId. One of
    anybody else is waited for, up to a session timeout, then DuplicateBrokerId. ``incarnation`` must be new for every call
    that is to be a new life; it is how a registration whose answer was lost is recognised as our own.
    """
    session_id = session.session_id
    await ensure_persistent_paths(session)
    if data is not None:
        await session.create_if_missing(BrokerDataZnode.path(broker.broker_id))
    epoch = BrokerEpochZnode(incarnation, boot_id, BrokerState.LIVE)
    deadline: float | None = None
    while True:
        seen = await _read(session, broker.broker_id)
        if session.session_id != session_id:
            raise SessionExpired(f"the session expired while broker {broker.broker_id} registered")
        if seen.other is not None and seen.other_stat is not None:
            if _is_this_life(session, seen, incarnation):
                return seen.epoch_version
            if not await _may_replace(session, seen, broker, still_runs):
                deadline = deadline or time.monotonic() + session.timeout_s + _WAIT_MARGIN_S
                await _wait_until_gone(session, seen.other, deadline)
                continue
        try:
            return await _write(session, broker, epoch, data, seen)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            logger.info("broker registration lost a race broker=%d error=%s", broker.broker_id, failed.cause)
        except ConnectionLost:
            await session.wait_connected()


def _is_this_life(session: ZkSession, seen: _Seen, incarnation: str) -> bool:
    """Whether our own registration took effect although its answer was lost."""
    assert seen.other is not None
    assert seen.other_stat is not None
    return (
        seen.other_stat.ephemeral_owner == session.session_id
        and seen.epoch.incarnation == incarnation
        and seen.other.broker_epoch == seen.epoch_version
    )


async def _may_replace(session: ZkSession, seen: _Seen, broker: BrokerZnode, still_runs: StillRuns | None) -> bool:
    """Whether a registration was left behind: by an earlier session of this process (ZOOKEEPER-2985), or by an earlier
    process with our data folder. DuplicateBrokerId if that process answers: no two processes have the same folder open."""
    other = seen.other
    assert other is not None
    assert seen.other_stat is not None
    if session.is_own(seen.other_stat.ephemeral_owner):
        return True
    if broker.uuid == "" or other.uuid != broker.uuid:
        return False
    if still_runs is not None and await still_runs(other):
        raise DuplicateBrokerId(
            f"broker.id {other.broker_id} is taken: the broker at {other.host}:{other.port} runs with it, and with a data"
            f" folder of the same id ({other.uuid}), so one of the two folders is a copy of the other",
            hint="stop that broker before a copy of its data folder takes its place, or start this one with an empty folder"
            " and a broker.id of its own",
        )
    return True


async def _write(
    session: ZkSession, broker: BrokerZnode, epoch: BrokerEpochZnode, data: BrokerDataZnode | None, seen: _Seen
) -> int:
    broker_epoch = seen.epoch_version + 1
    path = BrokerZnode.path(broker.broker_id)
    operations: list[Operation] = [SetData(BrokerEpochZnode.path(broker.broker_id), epoch.encode(), seen.epoch_version)]
    if seen.other_stat is not None:
        operations.append(Delete(path, seen.other_stat.version))
    operations.append(Create(path, replace(broker, broker_epoch=broker_epoch).encode(), ephemeral=True))
    if data is not None:
        operations.append(SetData(BrokerDataZnode.path(broker.broker_id), data.encode(), ANY_VERSION))
    results = await session.multi(operations)
    stat = results[0]
    assert isinstance(stat, Stat)
    # Invariant: the version after a conditional write is the version before it plus one; the epoch in ids says the same.
    assert stat.version == broker_epoch, (stat, broker_epoch)
    logger.info("broker registered broker=%d broker_epoch=%d", broker.broker_id, broker_epoch)
    return broker_epoch


async def _read(session: ZkSession, broker_id: int) -> _Seen:
    await session.sync("/")
    try:
        (epoch_data, epoch_stat), (other, stat) = await asyncio.gather(
            session.get(BrokerEpochZnode.path(broker_id)), _read_broker(session, broker_id)
        )
    except NoNode:
        unborn = BrokerEpochZnode(incarnation="", boot_id="", state=BrokerState.FENCED)
        try:
            await session.create(BrokerEpochZnode.path(broker_id), unborn.encode())
        except NodeExists:
            pass
        return await _read(session, broker_id)
    return _Seen(BrokerEpochZnode.decode(broker_id, epoch_data), epoch_stat.version, other, stat)


async def _read_broker(session: ZkSession, broker_id: int) -> tuple[BrokerZnode | None, Stat | None]:
    try:
        data, stat = await session.get(BrokerZnode.path(broker_id))
    except NoNode:
        return None, None
    return BrokerZnode.decode(broker_id, data), stat


async def _wait_until_gone(session: ZkSession, other: BrokerZnode, deadline: float) -> None:
    changed = asyncio.Event()
    if await session.exists(BrokerZnode.path(other.broker_id), lambda _: changed.set()) is None:
        return
    logger.info("broker id is taken, waiting broker=%d host=%s port=%d", other.broker_id, other.host, other.port)
    try:
        await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise DuplicateBrokerId(
            f"broker.id {other.broker_id} is taken: a live broker at {other.host}:{other.port} is registered with it",
            hint="give every broker a broker.id of its own",
        ) from None


async def fence(session: ZkSession, term: ControllerTerm, broker_id: int, broker_epoch: int) -> int:
    """Declare one life of a broker dead and return its new broker epoch; the broker may register anew at once.

    StaleBrokerEpoch if a newer life has registered meanwhile: then there is nothing to fence. Calling again after a lost
    answer is safe.
    """
    while True:
        seen = await _read(session, broker_id)
        if seen.epoch.state is BrokerState.FENCED and seen.epoch_version == broker_epoch + 1:
            return seen.epoch_version
        if seen.epoch_version != broker_epoch:
            raise StaleBrokerEpoch(f"broker {broker_id} has epoch {seen.epoch_version} by now, not {broker_epoch}")
        fenced = replace(seen.epoch, state=BrokerState.FENCED)
        operations: list[Operation] = [SetData(BrokerEpochZnode.path(broker_id), fenced.encode(), broker_epoch)]
        if seen.other_stat is not None:
            operations.append(Delete(BrokerZnode.path(broker_id), seen.other_stat.version))
        try:
            await fenced_multi(session, term, operations)
        except MultiFailed as failed:
            # Its session expired, or it registered, between the read and the write: look again.
            if not isinstance(failed.cause, BadVersion | NoNode):
                raise
        else:
            logger.info("broker fenced broker=%d broker_epoch=%d", broker_id, broker_epoch)
            return broker_epoch + 1


async def live_brokers(session: ZkSession) -> dict[int, BrokerZnode]:
    """All registered brokers by id; a znode that makes no sense is logged and left out."""
    names = await session.children(BrokerZnode.PARENT)
    ids = [int(name) for name in names if name.isascii() and name.isdigit()]
    found = await asyncio.gather(*(_read_live(session, broker_id) for broker_id in sorted(ids)))
    return {broker.broker_id: broker for broker in found if broker is not None}


async def _read_live(session: ZkSession, broker_id: int) -> BrokerZnode | None:
    try:
        return (await _read_broker(session, broker_id))[0]
    except MalformedZnode as error:
        logger.warning("broker ignored broker=%d error=%s", broker_id, error)
        return None


async def read_data(session: ZkSession, broker_id: int) -> BrokerDataZnode | None:
    """What this broker's data folders must hold; None if it never said."""
    await session.sync("/")
    try:
        data, _ = await session.get(BrokerDataZnode.path(broker_id))
    except NoNode:
        return None
    return BrokerDataZnode.decode(broker_id, data)


async def write_data(session: ZkSession, broker_id: int, broker_epoch: int, data: BrokerDataZnode) -> None:
    """Note what the folders hold by now, if this life of the broker is still the present one."""
    await session.create_if_missing(BrokerDataZnode.path(broker_id))
    await session.multi(
        [
            Check(BrokerEpochZnode.path(broker_id), broker_epoch),
            SetData(BrokerDataZnode.path(broker_id), data.encode(), ANY_VERSION),
        ]
    )


async def mark_reported(session: ZkSession, broker_id: int, broker_epoch: int) -> bool:
    """A controller has drawn the consequences of what this life of a broker said of its data: later ones need not.

    False if that life is over.
    """
    broker, stat = await _read_broker(session, broker_id)
    if broker is None or stat is None or broker.broker_epoch != broker_epoch:
        return False
    await session.set(BrokerZnode.path(broker_id), replace(broker, reported=True).encode(), stat.version)
    return True


async def cluster_id(session: ZkSession) -> str:
    """The cluster's id; whoever asks first makes it up."""
    data = await _create_or_read(
        session, ClusterIdZnode.PATH, lambda: ClusterIdZnode(uuid_to_text(uuid.uuid4())).encode()
    )
    return ClusterIdZnode.decode(data).cluster_id


async def cluster_secret(session: ZkSession) -> str:
    """What the brokers of this cluster prove to know to each other; whoever asks first makes it up."""
    if session.sets_acl:
        await warn_if_open(session)
    return SecretZnode.decode(await _create_or_read(session, SecretZnode.PATH, lambda: secrets.token_hex(32).encode()))


async def _create_or_read(session: ZkSession, path: str, make: Callable[[], bytes]) -> bytes:
    try:
        await session.sync(path)
        return (await session.get(path))[0]
    except NoNode:
        pass
    try:
        await session.create(path, make(), make_parents=True)
    except NodeExists:
        pass  # somebody else was quicker: theirs counts
    return (await session.get(path))[0]
