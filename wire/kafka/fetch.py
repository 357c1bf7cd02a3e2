"""Kafka's Fetch, read and written by hand: records leave as the views of the log that they are. Versions 4 to 18."""

from typing import Final

from ottla.wire.batch import Buffer
from ottla.wire.breath import BREATH, let_others_run
from ottla.wire.errors import NO_ERROR, OttlaError
from ottla.wire.kafka.primitives import INT16, INT32, INT64, Reader, add_count, add_text, add_uvarint
from ottla.wire.kafka.topic_ids import TopicIds, to_bytes, to_text
from ottla.wire.messages import CONSUMER
from ottla.wire.names import NO_EPOCH, NO_LEADER
from ottla.wire.requests import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchDrop,
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    NumberedFetchRequest,
    NumberedFetchResponse,
)

FLEXIBLE_FROM: Final = 12
OLDEST: Final = 4
NEWEST: Final = 18
IDS_FROM: Final = 13


def read_fetch(version: int, reader: Reader, topics: TopicIds) -> FetchRequest:
    replica_id = reader.int32() if version < 15 else CONSUMER
    max_wait_ms, min_bytes, max_bytes = reader.int32(), reader.int32(), reader.int32()
    reader.int8()  # the isolation level: without transactions all is committed that is shown
    session_id, epoch = (reader.int32(), reader.int32()) if version >= 7 else (NO_SESSION, FINAL_EPOCH)
    parts: list[FetchPart] = []
    for _ in range(reader.count()):
        name, topic_id = _read_topic(version, reader, topics)
        for _ in range(reader.count()):
            part = _read_part(version, reader)
            part.topic, part.topic_id = name, topic_id
            parts.append(part)
            if not len(parts) % BREATH:
                let_others_run()
        reader.tags()
    if version < 7:
        return FetchRequest(max_wait_ms, min_bytes, max_bytes, parts, replica_id)
    dropped = _read_forgotten(version, reader)
    if version >= 11:
        reader.text()  # the client's rack: leaders are near enough
    reader.tags()
    return NumberedFetchRequest(
        max_wait_ms, min_bytes, max_bytes, parts, replica_id, dropped=dropped,
        session_id=session_id, session_epoch=epoch, by_id=version >= IDS_FROM,
    )  # fmt: skip


def _read_topic(version: int, reader: Reader, topics: TopicIds) -> tuple[str, str]:
    """Name and id; no name if no topic is known to have the id."""
    if version < IDS_FROM:
        return reader.text() or "", ""
    topic_id = to_text(reader.uuid())
    return topics.topic_name_of(topic_id) or "", topic_id


def _read_part(version: int, reader: Reader) -> FetchPart:
    partition = reader.int32()
    leader_epoch = reader.int32() if version >= 9 else NO_EPOCH
    offset = reader.int64()
    last_fetched_epoch = reader.int32() if version >= 12 else NO_EPOCH
    if version >= 5:
        reader.int64()  # the log start offset of a follower
    part = FetchPart("", partition, offset, reader.int32(), leader_epoch, last_fetched_epoch)
    reader.tags()
    return part


def _read_forgotten(version: int, reader: Reader) -> tuple[FetchDrop, ...]:
    dropped: list[FetchDrop] = []
    for _ in range(reader.count()):
        topic = to_text(reader.uuid()) if version >= IDS_FROM else reader.text() or ""
        for _ in range(reader.count()):
            dropped.append(FetchDrop(topic, reader.int32()))
            if not len(dropped) % BREATH:
                let_others_run()
        reader.tags()
    return tuple(dropped)


# --- writing -------------------------------------------------------------------------------------------------------------


def failed_fetch(request: FetchRequest, error: OttlaError) -> FetchResponse:
    """The answer where the request failed as a whole: each of its parts has."""
    return FetchResponse(
        [
            FetchPartResult(error.code, str(error), part.topic, part.partition, topic_id=part.topic_id)
            for part in request.parts
        ]
    )


def write_fetch(
    version: int, response: FetchResponse, records: list[list[Buffer]], error_code: int = NO_ERROR
) -> list[Buffer]:
    """The pieces of the answer; ``records`` of each part, in the order of the parts."""
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(b"\0\0\0\0")  # not throttled
    if version >= 7:
        out += INT16.pack(error_code)
        out += INT32.pack(response.session_id if isinstance(response, NumberedFetchResponse) else NO_SESSION)
    by_topic: dict[str, list[tuple[FetchPartResult, list[Buffer]]]] = {}
    for part, pieces in zip(response.parts, records, strict=True):
        topic = part.topic_id if version >= IDS_FROM else part.topic
        by_topic.setdefault(topic, []).append((part, pieces))
    add_count(out, len(by_topic), flexible)
    written: list[Buffer] = []
    for topic, parts in by_topic.items():
        if version >= IDS_FROM:
            out += to_bytes(topic)
        else:
            add_text(out, topic, flexible)
        out = _add_parts(written, out, version, parts)
    if flexible:
        out.append(0)
    written.append(out)
    return written


def _add_parts(
    written: list[Buffer], out: bytearray, version: int, parts: list[tuple[FetchPartResult, list[Buffer]]]
) -> bytearray:
    """Add the parts of a topic; gives the bytes to go on with, behind the last records."""
    flexible = version >= FLEXIBLE_FROM
    add_count(out, len(parts), flexible)
    for number, (part, pieces) in enumerate(parts, 1):
        if not number % BREATH:
            let_others_run()
        out += INT32.pack(part.partition)
        out += INT16.pack(part.error_code)
        out += INT64.pack(part.high_watermark)
        out += INT64.pack(part.high_watermark)  # all that is committed is stable
        if version >= 5:
            out += INT64.pack(part.log_start_offset)
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"  # no aborted transactions: null
        if version >= 11:
            out += INT32.pack(NO_LEADER)  # read from the leader
        size = 0
        for piece in pieces:
            size += len(piece)
        add_count(out, size, flexible)
        if size:
            written.append(out)
            written += pieces
            out = bytearray()
        if flexible:
            _add_leader(out, part)
    if flexible:
        out.append(0)
    return out


def _add_leader(out: bytearray, part: FetchPartResult) -> None:
    """Who leads, told with the error that this broker does not."""
    if part.error_code == NO_ERROR or part.leader == NO_LEADER:
        out.append(0)
        return
    out += b"\x01\x01"
    add_uvarint(out, 9)
    out += INT32.pack(part.leader)
    out += INT32.pack(part.leader_epoch)
    out.append(0)
