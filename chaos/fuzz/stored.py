"""What stands in the logs in the end: asked of the brokers as Kafka's clients ask, and checked batch by batch."""

import contextlib
import random
import socket
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.chaos.fuzz.answers import asked_by, read_answer
from ottla.chaos.fuzz.batches import fingerprint
from ottla.chaos.fuzz.schemas import FETCH, METADATA, schema_of_request
from ottla.wire.batch import LENGTH_OVERHEAD
from ottla.wire.errors import OttlaError
from ottla.wire.kafka.schemas import struct_writer
from ottla.wire.payload_check import check_payload
from ottla.wire.records import RecordBatch

Address = tuple[str, int]

TIMEOUT_S: Final = 30.0
FETCH_BYTES: Final = 4 * 1024 * 1024
OPENED_MAX: Final = 8 * 1024 * 1024
"""A batch that opens to more is a bomb: it is counted, not opened."""


class Stored(NamedTuple):
    """One topic's batches."""

    batches: int
    records: int
    unread: int
    """Those whose records do not read, or open to too much: brokers look at no record but the first of plain ones, and store
    packed ones as they are (wire/payload_check.py)."""
    violations: list[str]


def ask(address: Address, api: int, version: int, values: dict[str, Any]) -> SimpleNamespace:
    """One request, on a connection of its own."""
    schema = schema_of_request(api)
    flexible = version in schema.flexible
    body = bytearray(api.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\x07\0\0")
    body += b"\0" if flexible else b""
    struct_writer(schema.fields, version, flexible)(body, values)
    frame = len(body).to_bytes(4, "big") + bytes(body)
    with contextlib.closing(socket.create_connection(address, timeout=TIMEOUT_S)) as sock:
        sock.sendall(frame)
        size = int.from_bytes(_receive(sock, 4), "big")
        asked = asked_by(frame)
        assert asked is not None
        return read_answer(asked, _receive(sock, size))


def _receive(sock: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = sock.recv(size - len(found))
        if not piece:
            raise ConnectionResetError("the broker hung up")
        found += piece
    return bytes(found)


def describe(address: Address, topics: list[str]) -> tuple[dict[int, Address], list[SimpleNamespace]]:
    """Where brokers are, and the topics with their ids and leaders."""
    named = [{"name": topic, "topic_id": None} for topic in topics]
    answer = ask(address, METADATA, 12, {"topics": named, "allow_auto_topic_creation": False})
    return {one.node_id: (one.host, one.port) for one in answer.brokers}, list(answer.topics)


def check_topic(bootstrap: Address, topic: str, storable: set[int] | None) -> Stored:
    """Read all of a topic; what is stored must tile, be whole, and be something that was sent."""
    brokers, (described,) = describe(bootstrap, [topic])
    counts: Counter[str] = Counter()
    violations: list[str] = []
    for part in described.partitions:
        where = f"{topic}-{part.partition_index}"
        expected = 0
        for batch in _batches(brokers[part.leader_id], topic, part.partition_index):
            if batch.base_offset != expected:
                violations.append(f"{where}: a batch at {batch.base_offset} where {expected} comes next")
            expected = batch.next_offset
            counts["batches"] += 1
            counts["records"] += batch.count
            counts["unread"] += not _reads(batch)
            try:
                check_payload(batch.buffer, batch.header)
            except OttlaError as error:
                violations.append(f"{where}, offset {batch.base_offset}: what a broker must refuse: {error}")
            if storable is not None and fingerprint(batch.buffer) not in storable:
                violations.append(f"{where}, offset {batch.base_offset}: a batch that nobody sent")
    return Stored(counts["batches"], counts["records"], counts["unread"], violations)


def _reads(batch: RecordBatch) -> bool:
    try:
        found = {len(batch.values()), len(batch.keys()), len(batch.timestamps()), len(batch.headers())}
    except OttlaError:
        return False
    return found == {batch.count}


def _batches(leader: Address, topic: str, partition: int) -> Iterator[RecordBatch]:
    """All batches of a partition, their CRCs checked."""
    offset = 0
    while True:
        part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
        topics = [{"topic": topic, "partitions": [part]}]
        answer = ask(leader, FETCH, 4, {"replica_id": -1, "max_bytes": FETCH_BYTES, "topics": topics})
        found = answer.responses[0].partitions[0]
        if found.error_code:
            raise OttlaError(f"{topic}-{partition} cannot be read at {offset}: error {found.error_code}")
        view = memoryview(found.records or b"")
        position = 0
        while len(view) - position > LENGTH_OVERHEAD:
            batch = RecordBatch(view[position:], True, OPENED_MAX)
            yield batch
            position += batch.size
            offset = batch.next_offset
        if offset >= found.high_watermark:
            return


def any_address(bootstrap: str) -> Address:
    host, _, port = random.Random(0).choice(bootstrap.split(",")).partition(":")
    return host, int(port)
