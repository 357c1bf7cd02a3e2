"""DeleteRecords: let partitions that this broker leads begin later."""

import asyncio
import time

from ottla.broker.api.later import later
from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.api.slices import Slices
from ottla.broker.cluster_view import ClusterView
from ottla.broker.purgatory import Purgatory
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.long_requests import InHand
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.admin import DeletedRecords, DeleteRecordsRequest, DeleteRecordsResponse, RecordsToDelete
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import OttlaError, RequestTimedOut
from ottla.wire.names import NO_EPOCH

TIMEOUT_MAX_S = 300.0
OWN_DISK_TIMEOUT_S = 10.0
"""How long a request with a timeout of 0 waits for this broker's disk, and for no other broker."""

LOOK_AGAIN_S = 0.01
"""How often a request of many partitions looks whether the next one is done."""

Awaited = tuple[DeletedRecords, Partition, int]
"""A part that is done here and not yet everywhere: its result, its partition, and where that shall begin."""


class DeleteRecordsHandler:
    """Deletes at once; the answer waits until all that may be elected have noted it, so no change of leader undoes it."""

    def __init__(self, partitions: Partitions, view: ClusterView, purgatory: Purgatory) -> None:
        self._partitions = partitions
        self._view = view
        self._purgatory = purgatory

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | Later | asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DeleteRecordsRequest)
        check_parts(request.partitions)
        for_replicas = request.timeout_ms > 0
        timeout_s = min(request.timeout_ms / 1000, TIMEOUT_MAX_S) if for_replicas else OWN_DISK_TIMEOUT_S
        if incoming.is_long:
            return later(
                self._delete_many(request.partitions, timeout_s, connection.in_hand, for_replicas=for_replicas)
            )
        awaited: list[Awaited] = []
        results = [self._delete(part, awaited) for part in request.partitions]
        return self._wait(Reply(DeleteRecordsResponse(results)), awaited, timeout_s, for_replicas=for_replicas)

    async def _delete_many(
        self, parts: list[RecordsToDelete], timeout_s: float, in_hand: InHand | None, *, for_replicas: bool
    ) -> Reply:
        """So many that they are worked on in slices, and looked at now and then, as long as the client is there."""
        slices = Slices()
        awaited: list[Awaited] = []
        results: list[DeletedRecords] = []
        ends_at = time.monotonic() + timeout_s
        for part in parts:
            results.append(self._delete(part, awaited))
            await slices.rest()
        awaited.reverse()  # the first one is looked at first, and is the last of the list
        while awaited:
            if _is_done(awaited[-1]):
                awaited.pop()
                await slices.rest()
            elif time.monotonic() < ends_at and (for_replicas or not _is_durable_here(awaited[-1])):
                if in_hand is not None:
                    in_hand.give_slot_back()
                    if not in_hand.may_wait:
                        ends_at = 0.0
                await asyncio.sleep(LOOK_AGAIN_S)
            else:
                _give_up(awaited.pop())
                await slices.rest()
        return Reply(DeleteRecordsResponse(results))

    def _delete(self, part: RecordsToDelete, awaited: list[Awaited]) -> DeletedRecords:
        result = DeletedRecords(0, "", part.topic, part.partition)
        try:
            partition = self._partitions.led(part.topic, part.partition, NO_EPOCH)
            awaited.append((result, partition, partition.delete_records_before(part.offset)))
        except OttlaError as error:
            leader, _ = self._view.leader_of(part.topic, part.partition)
            _fail(result, client_error(error, part.topic, leader))
        return result

    def _wait(
        self, response: Reply, awaited: list[Awaited], timeout_s: float, *, for_replicas: bool = True
    ) -> Reply | Later:
        def attempt() -> Reply | None:
            awaited[:] = [entry for entry in awaited if not _is_done(entry)]
            if not for_replicas and all(map(_is_durable_here, awaited)):
                return give_up()
            return response if not awaited else None

        def give_up() -> Reply:
            for entry in awaited:
                _give_up(entry)
            return response

        keys = [partition.where for _, partition, _ in awaited]
        return attempt() or self._purgatory.wait(attempt, give_up, keys, timeout_s)


def _is_done(entry: Awaited) -> bool:
    """Whether nothing is waited for any more; its result says what came of it."""
    result, partition, wanted = entry
    try:
        low_watermark = partition.low_watermark()
    except OttlaError as error:  # another broker leads by now, and may not have heard of it
        _fail(result, error)
        return True
    if low_watermark >= wanted:
        result.low_watermark = low_watermark
    return low_watermark >= wanted


def _is_durable_here(entry: Awaited) -> bool:
    """Whether this broker's own disk has the new beginning."""
    _, partition, wanted = entry
    return partition.durable_start >= wanted


def _give_up(entry: Awaited) -> None:
    result, partition, wanted = entry
    try:
        _fail(result, RequestTimedOut(_who_is_waited_for(partition, wanted)))
    except OttlaError as error:
        _fail(result, error)


def _who_is_waited_for(partition: Partition, wanted: int) -> str:
    leading = partition.leading
    in_sync = leading.effective_isr if leading is not None else frozenset()
    waits_for = ", ".join(
        f"broker {replica}"
        + ("" if replica in in_sync else " (not in sync, but it may be elected: min.insync.replicas)")
        for replica in partition.begin_before(wanted)
    )
    return f"{partition.where} begins at {wanted}, but not everywhere when time was over: waited for {waits_for}"


def _fail(result: DeletedRecords, error: OttlaError) -> None:
    result.error_code, result.error_message = error.code, str(error)
