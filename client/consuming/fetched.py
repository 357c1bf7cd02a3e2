"""What a fetch brought, as batches: up to the first that cannot be read, and why that one cannot."""

from ottla.wire.batch import COUNT_MAX, HEADER_SIZE, LENGTH_OVERHEAD, read_fields
from ottla.wire.errors import CorruptMessage, OttlaError, UnreadableRecords
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch


def unpack(
    where: TopicPartition, records: memoryview, offset: int, *, verify: bool
) -> tuple[list[RecordBatch], OttlaError | None]:
    """The batches of an answer to a fetch at ``offset``.

    Invariant [I27]: the first holds ``offset``, each of the others begins where the one before ends.
    """
    batches: list[RecordBatch] = []
    rest = records
    while rest:
        try:
            batch = _first(rest, offset, verify)
            if batch.base_offset > offset or (batches and batch.base_offset < offset):
                raise CorruptMessage(f"a batch of offset {batch.base_offset} came where {offset} was due")
        except Exception as error:
            if isinstance(error, _CutOff) and batches:
                break  # it comes whole with the next fetch, or fails then
            return batches, unreadable(where, offset, _end_of(rest, offset), error)
        batches.append(batch)
        offset = batch.next_offset
        rest = rest[batch.size :]
    return batches, None


def unreadable(where: TopicPartition, offset: int, next_offset: int, why: Exception) -> OttlaError:
    """What the caller is told of records that cannot be read: where they are, and how to go on behind them."""
    hint = f"seek to {next_offset} to go on behind it"
    if isinstance(why, OttlaError) and not isinstance(why, CorruptMessage):  # such as a codec that is not installed
        why.topic, why.partition = where
        why.hint = why.hint or hint
        return why
    text = f"the batch at {where}, offset {offset}, cannot be read: {why or type(why).__name__}; {hint}"
    error = UnreadableRecords(
        text, topic=where.topic, partition=where.partition, offset=offset, next_offset=next_offset, hint=hint
    )
    error.__cause__ = why
    return error


class _CutOff(CorruptMessage):
    """A batch is not there to its end."""


def _first(rest: memoryview, offset: int, verify: bool) -> RecordBatch:
    size = LENGTH_OVERHEAD + int.from_bytes(rest[8:LENGTH_OVERHEAD], "big", signed=True)
    if len(rest) < HEADER_SIZE or size > len(rest):
        raise _CutOff(f"it says that it has {size} bytes, and {len(rest)} came")
    batch = RecordBatch(rest, verify)
    if batch.next_offset <= offset:
        raise CorruptMessage(f"a batch that ends at {batch.next_offset} was sent")
    return batch


def _end_of(rest: memoryview, offset: int) -> int:
    """Where a batch that cannot be read ends, if two fields of it agree on that; else one offset further."""
    if len(rest) >= HEADER_SIZE:
        header = read_fields(rest)
        if 0 < header.count <= COUNT_MAX and header.last_offset_delta == header.count - 1:
            begins = header.base_offset if header.base_offset <= offset < header.next_offset else offset
            return begins + header.last_offset_delta + 1
    return offset + 1
