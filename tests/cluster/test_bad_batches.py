"""Record batches that lie, bombs, and random frames: nothing malformed gets into a log (T10, T11, T17, T22)."""

import random
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire.admin import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicToDelete
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA, BatchHeader, Codec, build_batch
from ottla.wire.compression import compress
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OttlaError,
    error_for,
)
from ottla.wire.messages import Request
from ottla.wire.records import encode_batch
from ottla.wire.requests import (
    ApiVersionsRequest,
    FetchPart,
    FetchRequest,
    ListOffsetsPart,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    ProducePart,
    ProduceRequest,
)
from tests.support.batches import split_batches
from tests.support.lying_batches import LIES, NOW_MS, honest, lies_about_its_payload, lying
from tests.support.machine import scaled
from tests.support.raw_client import Hung, RawClient, framed, one_record
from tests.support.victim import Victim

pytestmark = pytest.mark.cluster

SOON_MS = NOW_MS + 3_599_000
"""Just below what a broker takes from a clock that is ahead of its own."""


def produce_error(client: RawClient, batch: bytes | bytearray, topic: str = "target") -> type[OttlaError] | None:
    result = client.produce(topic, batch)
    return type(error_for(result.error_code)) if result.error_code else None


def test_batches_that_lie_are_refused_and_nobody_minds(unharmed: Victim) -> None:
    """Each by itself: tests/component/api/test_produce.py."""
    with unharmed.connect() as client:
        client.greet()
        for fields, error in LIES:
            assert produce_error(client, lying(**fields)) is error
        for why, batch in lies_about_its_payload():
            assert produce_error(client, batch) is InvalidRecord, why
        assert produce_error(client, one_record(random.randbytes(1_100_000))) is MessageTooLarge


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "base_sequence"),
    [(-(2**63), -32768, -(2**31)), (0, 0, 0), (2**63 - 1, 32767, 0)],
)
def test_any_producer_id_is_stored_and_read_back(
    unharmed: Victim, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    batch = lying(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    with unharmed.connect() as client:
        result = client.produce("scratch", batch)
        result.raise_if_failed()
        _, records = client.fetch("scratch", result.base_offset)
    (read,) = split_batches(records)
    header = read.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id,
        producer_epoch,
        base_sequence,
    )
    assert read.values() == [b"one", b"two", None]


def test_honest_batches_of_every_kind_are_stored(victim: Victim) -> None:
    with victim.connect() as client:
        for magic in (MAGIC_COLUMNS, MAGIC_KAFKA):
            for codec in Codec:
                for values in ([b"v"], [b"", None, b"x" * 300], [None], [b"%d" % n for n in range(1000)]):
                    headers = [[("name", b"value")]] * len(values)
                    for more in ({}, {"keys": values}, {"headers": headers}):
                        batch = encode_batch(values, timestamps=NOW_MS, codec=codec, magic=magic, **more)
                        assert produce_error(client, batch, "scratch") is None, (magic, codec, values[:3], more.keys())


# --- bombs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [MAGIC_COLUMNS, MAGIC_KAFKA])
@pytest.mark.parametrize(
    ("codec", "size_mb"), [(Codec.ZSTD, 1024), (Codec.GZIP, 200), (Codec.LZ4, 200), (Codec.SNAPPY, 20)], ids=str
)
def test_a_bomb_is_never_opened_further_than_the_cap(unharmed: Victim, codec: Codec, size_mb: int, magic: int) -> None:
    topic = "bomb"
    zeros = bytes(size_mb * 1024 * 1024)
    payload = compress(codec, zeros, 1 if codec in (Codec.GZIP, Codec.ZSTD) else None)
    del zeros
    assert len(payload) < 1_040_000
    bomb = build_batch(payload, magic=magic, attributes=codec, count=5, first_timestamp=10, max_timestamp=NOW_MS)
    with unharmed.connect() as client:
        client.greet()
        before = unharmed.rss_mb()
        began = time.monotonic()
        result = client.produce("scratch", bomb)
        result.raise_if_failed()  # the broker stores it as it is: opening it is the reader's risk, and readers have a cap
        assert time.monotonic() - began < scaled(1)
        for _ in range(3):
            (part,) = client.ask(
                ListOffsetsRequest([ListOffsetsPart("scratch", 0, NOW_MS - 1)]), ListOffsetsResponse
            ).parts
            assert part.error_code in (0, MessageTooLarge.code, CorruptMessage.code), topic
        assert unharmed.rss_mb() < before + 64


def test_a_search_by_time_ends_where_a_bomb_begins(victim: Victim) -> None:
    """It is not opened. Readers who begin there miss nothing."""
    payload = compress(Codec.ZSTD, bytes(512 * 1024 * 1024))
    bomb = build_batch(
        payload, magic=MAGIC_COLUMNS, attributes=Codec.ZSTD, count=5, first_timestamp=10, max_timestamp=SOON_MS
    )
    with victim.unharmed(), victim.connect() as client:
        produced = client.produce("scratch", bomb)
        produced.raise_if_failed()
        part = ListOffsetsPart("scratch", 0, SOON_MS - 1)  # only the bomb claims to reach so far
        (result,) = client.ask(ListOffsetsRequest([part]), ListOffsetsResponse).parts
        assert (result.error_code, result.offset) == (0, produced.base_offset)


# --- fuzzing ---------------------------------------------------------------------------------------------------------------

VALID: list[tuple[Request, list[bytes]]] = [
    (ApiVersionsRequest("fuzz"), []),
    (MetadataRequest(["target", "healthy"]), []),
    (MetadataRequest(None), []),
    (ProduceRequest(1, 1000, [ProducePart("target", 0, len(honest()))]), [bytes(honest())]),
    (ProduceRequest(-1, 1000, [ProducePart("target", 0, len(honest()))]), [bytes(honest())]),
    (FetchRequest(0, 1, 1000, [FetchPart("bulk", 0, 0, 1000), FetchPart("target", 0, 0, 1000)]), []),
    (ListOffsetsRequest([ListOffsetsPart("bulk", 0, 5), ListOffsetsPart("target", 0, -1)]), []),
    (CreateTopicsRequest([NewTopic("made/by/fuzz", 1, 1, {"a": "b"})], 100, True), []),
    (DeleteTopicsRequest([TopicToDelete("no such topic")], 100), []),
]

flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5)
FUZZ = settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)


def attack(victim: Victim, data: bytes) -> None:
    """Send it on a connection of its own and read whatever comes, until the broker has dealt with it."""
    with victim.connect() as client:
        client.send(data)
        client.finish()
        client.closed()


@FUZZ
@given(junk=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), dressed=st.booleans())
def test_random_bytes_append_nothing(unharmed: Victim, junk: list[bytes], dressed: bool) -> None:
    if dressed:  # as frames of the native dialect, so that they get further
        junk = [struct.pack(">IBBI", len(piece) + 6, 0x96, 0xCE, len(piece) + 6) + piece for piece in junk]
    attack(unharmed, b"".join(junk))


@FUZZ
@given(which=st.sampled_from(range(len(VALID))), changes=flips, head_only=st.booleans())
def test_mutated_requests_append_nothing_malformed(
    victim: Victim, which: int, changes: list[tuple[int, int]], head_only: bool
) -> None:
    request, attachments = VALID[which]
    if isinstance(request, ProduceRequest):  # here a mutant may be an honest request by chance: it goes where it may
        request = ProduceRequest(request.acks, 1000, [ProducePart("fuzz", 0, len(attachments[0]))])
    frame = bytearray(framed(request, attachments))
    span = len(frame) - sum(map(len, attachments)) if head_only else len(frame)
    for position, value in changes:
        frame[4 + position % (span - 4)] = value
    attack(victim, bytes(frame))


@FUZZ
@given(
    field=st.sampled_from([name for name in BatchHeader._fields if name != "crc"]),
    number=st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 5) | st.integers(NOW_MS - 9, NOW_MS + 9),
    attributes=st.integers(-(2**15), 2**15 - 1),
)
def test_batches_with_any_header_are_refused_or_decode(
    victim: Victim, field: str, number: int, attributes: int
) -> None:
    width = (
        7 if field == "magic" else 15 if field in ("producer_epoch", "attributes") else 31 if field in NARROW else 63
    )
    fields = {field: number % 2**width}
    if number % 2:
        fields["attributes"] = attributes
    with victim.connect() as client:
        try:
            client.produce("fuzz", lying(**fields))
        except Hung:
            pass


NARROW = ("length", "leader_epoch", "last_offset_delta", "base_sequence", "count")


def test_after_all_fuzzing_everything_in_the_log_decodes(victim: Victim) -> None:
    with victim.connect() as client:
        end = client.end_offset("fuzz")
        assert end > 0, "some mutants were honest"
        offset = 0
        while offset < end:
            _, records = client.fetch("fuzz", offset)
            for batch in split_batches(records):
                assert batch.base_offset == offset
                assert len(batch.values()) == len(batch.keys()) == len(batch.timestamps()) == batch.count
                assert batch.values() == [b"one", b"two", None]
                offset = batch.next_offset
