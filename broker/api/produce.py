"""Produce: append record batches to partitions that this broker leads."""

from collections.abc import Callable

from ottla.broker.api.parts import check_parts, client_error
from ottla.broker.cluster_view import ClusterView
from ottla.broker.metrics import Metrics
from ottla.broker.purgatory import Purgatory
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.partitions import Partitions
from ottla.net.peer import Peer
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import (
    InvalidRequiredAcks,
    NotLeaderOrFollower,
    OttlaError,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
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

TIMEOUT_MAX_S = 300.0

Awaited = tuple[ProducePartResult, Partition, int]
"""A part that is appended and not yet committed: its result, its partition, and the offset behind it."""


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

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply | Later | None:
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
        check_parts(request.parts, repeated=True)
        results: list[ProducePartResult] = []
        awaited: list[Awaited] = []
        for part, records in zip(request.parts, incoming.attachments, strict=True):
            results.append(self._append(part, records, request.acks, awaited))
        if request.acks == ACKS_NONE:
            self._close_on_error(results, connection)
            return None
        response = Reply(ProduceResponse(results))
        if request.receipts:
            self._write_receipts(results)
        if not awaited:
            return response
        return self._wait(response, awaited, min(max(request.timeout_ms, 1) / 1000, TIMEOUT_MAX_S))

    def _append(self, part: ProducePart, records: memoryview, acks: int, awaited: list[Awaited]) -> ProducePartResult:
        try:
            partition = self._partitions.led(part.topic, part.partition, NO_EPOCH)
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

    def _write_receipts(self, results: list[ProducePartResult]) -> None:
        """What holds now, for acks that need not wait; the others get theirs when they are acknowledged."""
        for result in results:
            partition = self._partitions.get(result.topic, result.partition)
            if partition is not None and not result.error_code:
                _write_receipt(result, partition)

    def _failed(self, part: ProducePart, error: OttlaError) -> ProducePartResult:
        leader, leader_epoch = self._view.leader_of(part.topic, part.partition)
        error = client_error(error, part.topic, leader)
        return ProducePartResult(
            error.code, str(error), part.topic, part.partition, leader=leader, leader_epoch=leader_epoch,
            topic_id=self._view.topic_id_of(part.topic),
        )  # fmt: skip

    def _wait(self, response: Reply, awaited: list[Awaited], timeout_s: float) -> Reply | Later:
        def attempt() -> Reply | None:
            for entry in list(awaited):
                result, partition, end = entry
                if partition.high_watermark >= end:
                    awaited.remove(entry)
                    if result.leader_epoch != NO_EPOCH:
                        _write_receipt(result, partition)
                elif (error := partition.lost()) is not None:
                    _fail(result, error)
                    awaited.remove(entry)
            return response if not awaited else None

        def give_up() -> Reply:
            for result, partition, _ in awaited:
                _fail(result, RequestTimedOut(f"{partition.where} was not acknowledged by all in {timeout_s:g} s"))
            return response

        keys = [partition.where for _, partition, _ in awaited]
        return attempt() or self._purgatory.wait(attempt, give_up, keys, timeout_s)

    def _close_on_error(self, results: list[ProducePartResult], connection: Peer) -> None:
        """Nobody hears an answer with acks=0: hanging up is the only way to tell the producer that something is wrong."""
        if any(result.error_code for result in results):
            connection.close()


def _write_receipt(result: ProducePartResult, partition: Partition) -> None:
    if partition.leading is not None:
        result.leader, result.leader_epoch = partition.leader, partition.leader_epoch
        result.isr = partition.leading.isr.members
        result.high_watermark = partition.high_watermark


def _fail(result: ProducePartResult, error: OttlaError) -> None:
    """What is written may come to be stored all the same. So no topic_id: that would say that nothing was written."""
    result.error_code, result.error_message = error.code, str(error)
    result.base_offset = -1
