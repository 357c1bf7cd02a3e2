"""Who is the controller, and how every write of one is fenced.

Winning /controller and bumping /controller_epoch is one multi, so no two controllers ever share an epoch; the *znode
version* of /controller_epoch then stands as a check in every multi of that controller, so a replaced one can write nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.wire.errors import StaleControllerEpoch
from ottla.zk.errors import BadVersion, ConnectionLost, MultiFailed, NodeExists, NoNode, SessionExpired
from ottla.zk.operations import Check, Create, Delete, Operation, OperationResult, SetData, Stat
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.controller import ControllerEpochZnode, ControllerZnode

logger = logging.getLogger(__name__)

FIRST_EPOCH = 1


@dataclass(frozen=True, slots=True)
class ControllerTerm:
    """The right to write as controller, for as long as nobody else has won."""

    epoch: int
    epoch_version: int

    @property
    def check(self) -> Check:
        """What stands first in every multi of this controller."""
        return Check(ControllerEpochZnode.PATH, self.epoch_version)


@dataclass(frozen=True, slots=True)
class OtherController:
    """Another broker is the controller; ``epoch`` is the one that it was elected with."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """Both znodes as they were read; no controller: None."""

    controller: ControllerZnode | None
    stat: Stat | None
    epoch: int
    epoch_version: int


async def elect(session: ZkSession, broker_id: int, now_ms: int) -> ControllerTerm | OtherController:
    """Become the controller if there is none; else tell who is.

    A /controller that names this very broker belongs to an earlier life or session of ours and is replaced at once.
    """
    while True:
        seen = await _read(session)
        if seen.controller is not None and seen.controller.broker_id != broker_id:
            return OtherController(seen.controller.broker_id, seen.epoch)
        term = await _try_to_win(session, broker_id, now_ms, seen)
        if term is not None:
            return term


async def take_over(
    session: ZkSession, broker_id: int, now_ms: int, *, dead: OtherController
) -> ControllerTerm | OtherController:
    """Replace a controller that is known to be dead without waiting for its session to expire.

    Only the controller of the epoch that the evidence is about: if another has won since, nothing is done.
    """
    while True:
        seen = await _read(session)
        replaced = seen.controller is not None and (seen.controller.broker_id, seen.epoch) != (
            dead.broker_id,
            dead.epoch,
        )
        if seen.controller is not None and replaced and seen.controller.broker_id != broker_id:
            return OtherController(seen.controller.broker_id, seen.epoch)
        term = await _try_to_win(session, broker_id, now_ms, seen)
        if term is not None:
            return term


@dataclass(frozen=True, slots=True)
class KnownController:
    """The last epoch that a controller was elected with, and who is the controller now, if anybody is."""

    broker_id: int | None
    epoch: int


async def read_controller(session: ZkSession) -> KnownController:
    """Who is the controller, not older than the moment of the call."""
    seen = await _read(session)
    return KnownController(seen.controller.broker_id if seen.controller is not None else None, seen.epoch)


async def resign(session: ZkSession, term: ControllerTerm) -> None:
    """Give /controller up, if it is still ours; a later controller's is left alone."""
    try:
        # An ephemeral znode that nobody ever sets has version 0; the check keeps us from deleting a successor's.
        await session.multi([term.check, Delete(ControllerZnode.PATH, 0)])
        logger.info("controller resigned epoch=%d", term.epoch)
    except MultiFailed as failed:
        if not isinstance(failed.cause, BadVersion | NoNode):
            raise


async def fenced_multi(
    session: ZkSession, term: ControllerTerm, operations: Sequence[Operation]
) -> list[OperationResult]:
    """A multi that takes effect only while this term lasts: StaleControllerEpoch if it is over (then resign)."""
    try:
        return (await session.multi([term.check, *operations]))[1:]
    except MultiFailed as failed:
        if failed.index == 0:
            raise StaleControllerEpoch(
                f"controller epoch {term.epoch} is over: another controller was elected"
            ) from None
        raise


async def _read(session: ZkSession) -> _Seen:
    # Our server may lag behind: without the sync we might not see the controller that another server already knows.
    await session.sync("/")
    while True:
        try:
            before, (data, epoch_stat), after = await asyncio.gather(
                _read_controller(session), session.get(ControllerEpochZnode.PATH), _read_controller(session)
            )
        except NoNode:
            await _create_epoch(session)
            continue
        # Two znodes cannot be read at one moment. But the same controller before and after the epoch was read has that epoch.
        if before == after:
            controller, stat = after
            return _Seen(controller, stat, ControllerEpochZnode.decode(data).epoch, epoch_stat.version)


async def _create_epoch(session: ZkSession) -> None:
    try:
        await session.create(ControllerEpochZnode.PATH, ControllerEpochZnode(FIRST_EPOCH - 1).encode())
    except NodeExists:
        pass  # another broker was as quick


async def _read_controller(session: ZkSession) -> tuple[ControllerZnode | None, Stat | None]:
    try:
        data, stat = await session.get(ControllerZnode.PATH)
    except NoNode:
        return None, None
    return ControllerZnode.decode(data), stat


async def _try_to_win(session: ZkSession, broker_id: int, now_ms: int, seen: _Seen) -> ControllerTerm | None:
    """One conditional attempt on what was seen; None if somebody was quicker and it must be looked at again."""
    session_id = session.session_id
    term = ControllerTerm(seen.epoch + 1, seen.epoch_version + 1)
    operations: list[Operation] = [
        SetData(ControllerEpochZnode.PATH, ControllerEpochZnode(term.epoch).encode(), seen.epoch_version)
    ]
    if seen.stat is not None:
        operations.append(Delete(ControllerZnode.PATH, seen.stat.version))
    operations.append(Create(ControllerZnode.PATH, ControllerZnode(broker_id, now_ms).encode(), ephemeral=True))
    try:
        await session.multi(operations)
    except MultiFailed as failed:
        if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
            raise
        logger.info("controller election lost broker=%d epoch=%d error=%s", broker_id, term.epoch, failed.cause)
        return None
    except ConnectionLost:
        if not await _won_unheard(session, session_id, term):
            return None
    logger.info("controller elected broker=%d epoch=%d", broker_id, term.epoch)
    return term


async def _won_unheard(session: ZkSession, session_id: int, term: ControllerTerm) -> bool:
    """The connection dropped before the answer: find out whether the multi took effect."""
    await session.wait_connected()
    if session.session_id != session_id:
        raise SessionExpired("the session expired during the controller election")
    seen = await _read(session)
    ours = seen.stat is not None and seen.stat.ephemeral_owner == session_id
    return ours and (seen.epoch, seen.epoch_version) == (term.epoch, term.epoch_version)
