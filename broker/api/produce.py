"""Produce: append record batches to partitions that this broker leads."""

import asyncio
from collections.abc import Callable

from ottla.broker.api.acknowledgements import (
    TIMEOUT_MAX_S,
    Awaited,
    close_on_error,
    fail,
    is_acknowledged,
    not_acknowledged,
    write_receipt,
)
from ottla.broker.api.later import later
from ottla.broker.api.long_produce import LongProduces
from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatory
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    InconsistentTopicId,
    InvalidRequiredAcks,
    NotLeaderOrFollower,
    OttlaError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
)
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from ottla.wire.names import NO_EPOCH
from ottla.wire.requests import (
    ProducePart,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
    TransactionalProduceRequest,
)


class ProduceHandler:
    """Appends at once, in the order of arrival; acks that must wait do so in the purgatory."""

    def __init__(
        self,
        partitions: Partitions,
        view: ClusterView,
        purgatory: Purgatory,
        metrics: Metrics,
        unsure: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """``unsure`` tells whether ZooKeeper may have given this broker up, ``now_ms`` the time of day for timestamps."""
        self._now_ms = now_ms
        self._unsure = unsure
        self._partitions = partitions
        self._view = view
        self._purgatory = purgatory
        self._bytes_in = metrics.bytes_in
        self._batches_in = metrics.batches_in
        self._records_in = metrics.records_in
        self._long = LongProduces(self.append, self.write_receipts)

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | Later | asyncio.Future[Reply] | None:
        request = incoming.message
        assert isinstance(request, ProduceRequest)
        if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            raise InvalidRequiredAcks(f"acks={request.acks}; allowed are 0, 1 and -1 (all)")
        if isinstance(request, TransactionalProduceRequest):
            raise TransactionalIdAuthorizationFailed(
                f"records of the transaction {request.transactional_id[:40]!r}; there are no transactions here"
            )
        # A partition may come several times. What can be tried again keeps from one part of it what it keeps from the next
        # (who leads, who is in sync, the disk: none changes in between), so no batch overtakes one that will come again.
        check_parts(request.parts)
        if incoming.is_long:
            return later(self._long.answer(request, incoming.attachments, connection))
        results: list[ProducePartResult] = []
        awaited: list[Awaited] = []
        for part, records in zip(request.parts, incoming.attachments, strict=True):
            results.append(self.append(part, records, request.acks, awaited))
        if request.acks == ACKS_NONE:
            close_on_error(results, connection)
            return None
        response = Reply(ProduceResponse(results))
        if request.receipts:
            self.write_receipts(results)
        if not awaited:
            return response
        return self._wait(response, awaited, min(max(request.timeout_ms, 1) / 1000, TIMEOUT_MAX_S))

    def append(self, part: ProducePart, records: memoryview, acks: int, awaited: list[Awaited]) -> ProducePartResult:
        try:
            # Invariant: records for a topic id reach no other topic. A long Produce is read in a thread, which finds the name.
            partition = self._partitions.led(part.topic, part.partition, NO_EPOCH, part.topic_id)
            if acks != ACKS_ALL and len(partition.replicas) > 1 and self._unsure():
                # Another broker may lead by now. What all in-sync replicas have is safe even so; what this one alone has
                # is not (docs/decisions/0006).
                raise NotLeaderOrFollower(
                    f"this broker is cut off from ZooKeeper and may lead {partition.where} no more"
                )
            appended = partition.append(records, self._now_ms(), all_must_ack=acks == ACKS_ALL)
        except OttlaError as error:
            return self._failed(part, error)
        self._bytes_in.count += len(records)
        self._batches_in.count += 1
        self._records_in.count += appended.last_offset - appended.first_offset + 1
        result = ProducePartResult(
            0,
            "",
            part.topic,
            part.partition,
            appended.first_offset,
            appended.append_time_ms,
            partition.log.log_start_offset,
        )
        end = appended.last_offset + 1
        if partition.high_watermark < end and (acks == ACKS_ALL or partition.durable):
            awaited.append((result, partition, end))
        return result

    def write_receipts(self, results: list[ProducePartResult]) -> None:
        """What holds now, for acks that need not wait; the others get theirs when they are acknowledged."""
        for result in results:
            partition = self._partitions.get(result.topic, result.partition)
            if partition is not None and not result.error_code:
                write_receipt(result, partition)

    def _failed(self, part: ProducePart, error: OttlaError) -> ProducePartResult:
        leader, leader_epoch = self._view.leader_of(part.topic, part.partition)
        if isinstance(error, InconsistentTopicId):
            error = UnknownTopicId(f"{error}; nothing was appended")
        error = client_error(error, part.topic, leader)
        return ProducePartResult(
            error.code, str(error), part.topic, part.partition, leader=leader, leader_epoch=leader_epoch,
            topic_id=self._view.topic_id_of(part.topic),
        )  # fmt: skip

    def _wait(self, response: Reply, awaited: list[Awaited], timeout_s: float) -> Reply | Later:
        def attempt() -> Reply | None:
            awaited[:] = [entry for entry in awaited if not is_acknowledged(entry)]
            return response if not awaited else None

        def give_up() -> Reply:
            for result, partition, _ in awaited:
                fail(result, not_acknowledged(partition, timeout_s))
            return response

        keys = [partition.where for _, partition, _ in awaited]
        return attempt() or self._purgatory.wait(attempt, give_up, keys, timeout_s)
