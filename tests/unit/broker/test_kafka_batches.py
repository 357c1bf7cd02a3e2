"""Columnar batches for Kafka's clients: however well the columns were compressed, an answer has an end, and so has the log."""

import tracemalloc
from collections.abc import Sequence

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from ottla.broker.kafka_batches import RECORD_WEIGHT, KafkaBatches
from ottla.net.answers import encode
from ottla.net.reply import Reply
from ottla.wire.batch import MAGIC_KAFKA, BatchHeader, Buffer, Codec, read_header
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import CorruptMessage, MessageTooLarge
from ottla.wire.kafka.batches import batches_of
from ottla.wire.kafka.dialect import CONVERTED_MAX, Convert, KafkaDialect
from ottla.wire.kafka.primitives import INT64
from ottla.wire.messages import Api
from ottla.wire.records import encode_batch
from ottla.wire.requests import FetchPartResult, NumberedFetchRequest, NumberedFetchResponse
from tests.support.kafka_dialect import TwoTopics
from tests.support.kafka_values import plain

COUNT = 100_000
BATCH = encode_batch([b"x"] * COUNT, timestamps=1, codec=Codec.ZSTD)
BATCHES = 6
VERSION = 12


def _log() -> list[bytes]:
    found = []
    for number in range(BATCHES):
        batch = bytearray(BATCH)
        INT64.pack_into(batch, 0, number * COUNT)
        found.append(bytes(batch))
    return found


def _answered(convert: Convert, fetch: int, read: Sequence[bytes]) -> list[bytes]:
    """What a client is given of each partition in its ``fetch``-th, where the broker has ``read`` so much of them."""
    dialect = KafkaDialect(TwoTopics(), convert)
    request = NumberedFetchRequest(500, 1, 1 << 20, [], session_id=1, session_epoch=fetch)
    incoming = IncomingRequest(dialect, int(Api.FETCH), VERSION, fetch, "client", request, [])
    parts = [FetchPartResult(0, "", "first", number, len(records)) for number, records in enumerate(read)]
    views = [memoryview(records) for records in read if records]
    answer = b"".join(map(bytes, encode(incoming, Reply(NumberedFetchResponse(parts, True, 1), views))))
    entity, _ = entity_reader(load_response_schema(int(Api.FETCH), VERSION))(answer[9:], 0)
    told = plain(entity)
    assert told["error_code"] == 0
    return [partition["records"] or b"" for partition in told["responses"][0]["partitions"]]


def _headers(records: bytes) -> list[BatchHeader]:
    return [read_header(batch) for batch in batches_of(records)]


def test_columns_that_are_more_than_an_answer_come_in_several_and_all_of_them_come() -> None:
    convert = KafkaBatches(kept_bytes=0).convert
    logs, position = [_log(), _log()], [0, 0]
    fetches = 0
    while position != [BATCHES, BATCHES]:
        fetches += 1
        rest = [b"".join(log[at:]) for log, at in zip(logs, position, strict=True)]
        given = [_headers(records) for records in _answered(convert, fetches, rest)]
        count = sum(header.count for headers in given for header in headers)
        assert COUNT <= count <= CONVERTED_MAX // RECORD_WEIGHT + COUNT, "bounded, and never nothing"
        for number, headers in enumerate(given):
            expected = range(position[number], position[number] + len(headers))
            assert [header.base_offset for header in headers] == [at * COUNT for at in expected]
            position[number] += len(headers)
    assert fetches > 1, "it was too much for one"


def test_partition_whose_batches_are_too_large_keeps_no_other_one_out() -> None:
    def convert(topic: str, partition: int, views: Sequence[Buffer], most: int) -> tuple[list[Buffer], int]:
        return ([b"batch"], CONVERTED_MAX) if most > 0 else ([], 0)

    given = [_answered(convert, fetch, [b"x", b"x", b"x"]) for fetch in range(1, 4)]
    assert sorted(given) == [[b"", b"", b"batch"], [b"", b"batch", b""], [b"batch", b"", b""]]


def test_batches_that_need_nothing_are_given_though_there_is_room_for_no_conversion() -> None:
    kafka = encode_batch([b"x"], timestamps=1, magic=MAGIC_KAFKA)
    assert KafkaBatches().convert("t", 0, [memoryview(kafka)], -1) == ([kafka], 0)


def test_damaged_batch_is_an_error_of_its_partition_and_gets_no_other_crc() -> None:
    unreadable: list[tuple[str, int, int]] = []
    convert = KafkaBatches(unreadable=lambda *where: unreadable.append(where)).convert
    whole, damaged, _, *_ = map(bytearray, _log())
    damaged[-1] ^= 1
    made, _ = convert("first", 0, [memoryview(whole + damaged)], CONVERTED_MAX * 2)
    assert [read_header(batch).base_offset for batch in made] == [0], "what lies before it is given"
    assert unreadable == [("first", 0, COUNT)]
    given = _answered(convert, 1, [bytes(damaged), bytes(whole)])
    assert given[0] == b""
    assert _headers(given[1])
    with pytest.raises(CorruptMessage):
        convert("first", 0, [memoryview(damaged)], CONVERTED_MAX)


def test_a_batch_that_opens_to_very_many_records_is_refused_before_it_is_opened() -> None:
    """A batch of 6.6 KB took 1.3 GB and 8.6 s, for each fetch of it. It is not damaged: nobody is told that it is."""
    unreadable: list[object] = []
    batches = KafkaBatches(unreadable=lambda *where: unreadable.append(where))
    bomb = encode_batch([b""] * 400_000, timestamps=1, codec=Codec.ZSTD)
    assert len(bomb) < 1_000
    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge, match="400000 records; at most 335544"):
            batches.convert("first", 0, [memoryview(bomb)], 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert not unreadable


def test_a_batch_that_opens_to_very_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.kafka_batches.CONVERSION_MEMORY_MAX", 1_000_000)
    large = encode_batch([b"x" * 10_000] * 100, timestamps=1, codec=Codec.ZSTD)
    fits = encode_batch([b"x" * 9_000] * 100, timestamps=1, codec=Codec.ZSTD)
    with pytest.raises(MessageTooLarge, match="first-0 is too large for clients of Kafka's"):
        KafkaBatches().convert("first", 0, [memoryview(large)], 1)
    made, _ = KafkaBatches().convert("first", 0, [memoryview(fits), memoryview(large)], 2_000_000)
    assert [header.count for header in _headers(bytes(made[0]))] == [100], "what stands before it is told"


def test_a_batch_of_very_many_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.kafka_batches.CONVERSION_MEMORY_MAX", 1_000_000)
    bomb = encode_batch([b"x"], timestamps=1, headers=[[("", b"")] * 100_000], codec=Codec.ZSTD)
    with pytest.raises(MessageTooLarge, match="bytes of headers"):
        KafkaBatches().convert("first", 0, [memoryview(bomb)], 1)
