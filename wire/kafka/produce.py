"""Kafka's Produce, read and written by hand: record bytes are views of the frame, as they came. Versions 0 to 13.

Versions before 3 are read only to be refused by the format of their records: old clients take a missing version for a sign
that the broker knows no compression (KAFKA-18659).
"""

from typing import Final

from ottla.wire.batch import Buffer
from ottla.wire.breath import BREATH, let_others_run
from ottla.wire.errors import NO_ERROR, OttlaError, UnknownTopicId, UnsupportedCompressionType
from ottla.wire.kafka.batches import PRODUCE_ZSTD_FROM, has_zstd
from ottla.wire.kafka.primitives import INT16, INT32, INT64, Reader, add_count, add_text, add_uvarint
from ottla.wire.kafka.topic_ids import TopicIds, to_bytes, to_text
from ottla.wire.names import NO_LEADER
from ottla.wire.requests import (
    ProducePart,
    ProducePartResult,
    ProduceRequest,
    ProduceResponse,
    TransactionalProduceRequest,
)

FLEXIBLE_FROM: Final = 9
NEWEST: Final = 13
IDS_FROM: Final = 13

_EMPTY = memoryview(b"")


class ProduceContext:
    """What the answer needs of the request: ids of topics that are named by id, those that nobody knows, and refused parts."""

    __slots__ = ("ids", "refused", "unknown")

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.unknown: list[tuple[bytes, int]] = []
        self.refused: list[ProducePartResult] = []


def read_produce(
    version: int, reader: Reader, topics: TopicIds
) -> tuple[ProduceRequest, list[memoryview], ProduceContext]:
    """The request, its records, and what its answer needs."""
    transactional_id = reader.text() if version >= 3 else None
    acks, timeout_ms = reader.int16(), reader.int32()
    context = ProduceContext()
    parts: list[ProducePart] = []
    attachments: list[memoryview] = []
    for _ in range(reader.count()):
        name: str | None
        topic_id, id_text = b"", ""
        if version >= IDS_FROM:
            topic_id = reader.uuid()
            id_text = to_text(topic_id)
            name = topics.topic_name_of(id_text)
            if name is not None:
                context.ids[name] = topic_id
        else:
            name = reader.text() or ""
        for _ in range(reader.count()):
            partition, records = reader.int32(), reader.data()
            reader.tags()
            if name is None:
                context.unknown.append((topic_id, partition))
                continue
            records = _EMPTY if records is None else records
            if version < PRODUCE_ZSTD_FROM and has_zstd(records):
                context.refused.append(_refused_zstd(name, partition))
                continue
            parts.append(ProducePart(name, partition, len(records), id_text))
            if not len(parts) % BREATH:
                let_others_run()
            attachments.append(records)
        reader.tags()
    reader.tags()
    if transactional_id is not None:
        message: ProduceRequest = TransactionalProduceRequest(
            acks, timeout_ms, parts, transactional_id=transactional_id
        )
    else:
        message = ProduceRequest(acks, timeout_ms, parts)
    return message, attachments, context


def _refused_zstd(topic: str, partition: int) -> ProducePartResult:
    why = f"records are compressed with zstd, which Produce has from version {PRODUCE_ZSTD_FROM} on"
    return ProducePartResult(UnsupportedCompressionType.code, why, topic, partition)


def failed_produce(request: ProduceRequest, error: OttlaError) -> ProduceResponse:
    """The answer where the request failed as a whole: each of its parts has."""
    return ProduceResponse(
        [ProducePartResult(error.code, str(error), part.topic, part.partition) for part in request.parts]
    )


def write_produce(version: int, response: ProduceResponse, context: ProduceContext) -> list[Buffer]:
    flexible = version >= FLEXIBLE_FROM
    out = bytearray()
    by_topic: dict[str, list[ProducePartResult]] = {}
    for part in (*response.parts, *context.refused):
        by_topic.setdefault(part.topic, []).append(part)
    unknown: dict[bytes, list[ProducePartResult]] = {}
    for topic_id, partition in context.unknown:
        refused = ProducePartResult(UnknownTopicId.code, "no topic has this id", "", partition)
        unknown.setdefault(topic_id, []).append(refused)
    add_count(out, len(by_topic) + len(unknown), flexible)
    for name, parts in by_topic.items():
        if version >= IDS_FROM:
            out += context.ids.get(name) or to_bytes("")
        else:
            add_text(out, name, flexible)
        _add_parts(out, version, parts)
    for topic_id, parts in unknown.items():
        out += topic_id
        _add_parts(out, version, parts)
    if version >= 1:
        out += b"\0\0\0\0"  # not throttled
    if flexible:
        out.append(0)
    return [out]


def _add_parts(out: bytearray, version: int, parts: list[ProducePartResult]) -> None:
    flexible = version >= FLEXIBLE_FROM
    add_count(out, len(parts), flexible)
    for number, part in enumerate(parts, 1):
        if not number % BREATH:
            let_others_run()
        out += INT32.pack(part.partition)
        out += INT16.pack(part.error_code)
        out += INT64.pack(part.base_offset)
        if version >= 2:
            out += INT64.pack(part.append_time_ms)
        if version >= 5:
            out += INT64.pack(part.log_start_offset)
        if version >= 8:
            add_count(out, 0, flexible)
            add_text(out, part.error_message if part.error_code != NO_ERROR else None, flexible)
        if flexible:
            _add_leader(out, version, part)
    if flexible:
        out.append(0)


def _add_leader(out: bytearray, version: int, part: ProducePartResult) -> None:
    """Who leads, told with the error that this broker does not: a tagged field of newer versions."""
    if version < 10 or part.error_code == NO_ERROR or part.leader == NO_LEADER:
        out.append(0)
        return
    out += b"\x01\x00"
    add_uvarint(out, 9)
    out += INT32.pack(part.leader)
    out += INT32.pack(part.leader_epoch)
    out.append(0)
