"""Acknowledgements of appended batches: whether one is committed, or no longer can be, and the result for its producer."""

from ottla.broker.replication.partition import Partition
from ottla.net.peer import Peer
from ottla.wire.errors import OttlaError, RequestTimedOut
from ottla.wire.names import NO_EPOCH
from ottla.wire.requests import ProducePartResult

TIMEOUT_MAX_S = 300.0

Awaited = tuple[ProducePartResult, Partition, int]
"""A part that is appended and not yet committed: its result, its partition, and the offset behind it."""


def close_on_error(results: list[ProducePartResult], connection: Peer) -> None:
    """Nobody hears an answer with acks=0: hanging up is the only way to tell the producer that something is wrong."""
    if any(result.error_code for result in results):
        connection.close()


def is_acknowledged(entry: Awaited) -> bool:
    """Whether nothing is waited for any more: its batch is committed, or never will be, which its result says then."""
    result, partition, end = entry
    if partition.high_watermark >= end:
        if result.leader_epoch != NO_EPOCH:
            write_receipt(result, partition)
        return True
    error = partition.lost()
    if error is not None:
        fail(result, error)
    return error is not None


def not_acknowledged(partition: Partition, timeout_s: float) -> OttlaError:
    return RequestTimedOut(f"{partition.where} was not acknowledged by all in {timeout_s:g} s")


def write_receipt(result: ProducePartResult, partition: Partition) -> None:
    if partition.leading is not None:
        result.leader, result.leader_epoch = partition.leader, partition.leader_epoch
        result.isr = partition.leading.isr.members
        result.high_watermark = partition.high_watermark


def fail(result: ProducePartResult, error: OttlaError) -> None:
    """Set an error. The batch may still be committed: no topic_id, which would mean that nothing was appended."""
    result.error_code, result.error_message = error.code, str(error)
    result.base_offset = -1
