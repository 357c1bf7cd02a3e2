"""Rows on their way to batches: the same rows give the same batches, however they come."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla.client.producing.partitioner import partition_for_key
from ottla.spark_jobs.sink.batching import Batching, Numbers
from ottla.spark_jobs.sink.fingerprint import Fingerprint
from ottla.spark_jobs.sink.key_hashes import partitions_of_keys
from ottla.spark_jobs.sink.notes import Note, RowsDiffer, agreed
from ottla.spark_jobs.sink.placing import Placer, TopicPlan, by_topic, sizes_of, spread_bytes
from ottla.spark_jobs.sink.rows import as_rows
from ottla.spark_jobs.sink.sorting import KeptRows, SortedRows
from ottla.wire.batch import Codec
from ottla.wire.columns import HEADERS_MAX
from ottla.wire.errors import ConfigError, InvalidRecord, MessageTooLarge, UnknownTopicOrPartition
from ottla.wire.names import TopicPartition
from ottla.wire.records import RecordBatch

Row = tuple[bytes | None, bytes | None]


def table(rows: list[Row]) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def some_rows(seed: int, count: int) -> list[Row]:
    random_ = random.Random(seed)
    alphabet = [b"a", b"b", b"\x00", b"\xff", b"long" * 20, b"", None]

    def item() -> bytes | None:
        parts = random_.choices(alphabet, k=random_.randint(1, 3))
        return None if None in parts else b"".join(part for part in parts if part)

    return [(item(), item()) for _ in range(count)]


def in_tables(rows: list[Row], seed: int) -> Iterator[pa.Table]:
    random_ = random.Random(seed)
    while rows:
        size = random_.randint(1, 50)
        yield table(rows[:size])
        rows = rows[size:]


def listed(tables: Iterator[pa.Table]) -> list[Row]:
    return [(row["key"], row["value"]) for one in tables for row in one.to_pylist()]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("memory", [500, 5_000, 10_000_000])
def test_rows_come_in_the_same_order_however_they_were_shuffled_and_spilled(seed: int, memory: int) -> None:
    rows = some_rows(seed, 400)
    shuffled = random.Random(-seed).sample(rows, len(rows))
    with SortedRows(memory) as once, SortedRows(10_000_000) as again:
        for one in in_tables(rows, seed):
            once.add(one)
        for one in in_tables(shuffled, -seed):
            again.add(one)
        assert once.spilled == (memory < 10_000_000)
        ordered = listed(iter(once))
        assert ordered == listed(iter(again))
        assert ordered == listed(iter(once)), "the second time as the first"
    last = (1, b"")
    expected = sorted(rows, key=lambda row: tuple(last if item is None else (0, item) for item in row))
    assert ordered == expected


@pytest.mark.parametrize("memory", [500, 10_000_000])
def test_kept_rows_stay_as_they_came(memory: int) -> None:
    rows = some_rows(1, 300)
    with KeptRows(memory) as kept:
        for one in in_tables(rows, 1):
            kept.add(one)
        assert listed(iter(kept)) == rows


def test_keys_go_where_kafkas_producers_put_them() -> None:
    random_ = random.Random(7)
    keys = [random_.randbytes(random_.randint(0, 40)) for _ in range(500)]
    array = pa.array([b"skipped", *keys], pa.binary()).slice(1)
    assert partitions_of_keys(array, 12).tolist() == [partition_for_key(key, 12) for key in keys]


def test_fingerprints_tell_rows_apart_and_nothing_else() -> None:
    def of(*tables: pa.Table) -> bytes:
        fingerprint = Fingerprint()
        for one in tables:
            fingerprint.add(one)
        return fingerprint.digest()

    rows = some_rows(3, 50)
    assert of(table(rows)) == of(table(rows[:20]), table(rows[20:]))
    assert of(table([(b"a", b"bc")])) != of(table([(b"ab", b"c")]))
    assert of(table([(b"", b"b")])) != of(table([(None, b"b")]))
    assert of(table([(None, b"a"), (None, b"bc")])) != of(table([(None, b"ab"), (None, b"c")]))
    assert of(table(rows)) != of(table(rows[1:]))


def batches_of(tables: list[pa.Table], batch_bytes: int = 2_000) -> dict[TopicPartition, list[bytes]]:
    batching = Batching(Numbers(7, 3), Codec.NONE, 1_000)
    plan = TopicPlan(4, batch_bytes)
    placer = Placer("t", plan, sum(spread_bytes(one, sizes_of(one)) for one in tables), turn=1)
    made: dict[TopicPartition, list[bytes]] = {}
    for one in tables:
        for where, batch in batching.add("t", one, placer.place(one, sizes_of(one)), batch_bytes):
            made.setdefault(where, []).append(bytes(batch))
    for where, batch in batching.finish():
        made.setdefault(where, []).append(bytes(batch))
    return made


@pytest.mark.parametrize("seed", range(10))
def test_batches_do_not_depend_on_the_tables_in_which_rows_come(seed: int) -> None:
    rows = some_rows(seed, 600)
    whole = batches_of([table(rows)])
    assert batches_of(list(in_tables(rows, seed))) == whole
    assert batches_of([table([row]) for row in rows]) == whole


def test_batches_bear_all_rows_of_their_partition_in_order_and_numbered_from_0() -> None:
    rows = some_rows(4, 500)
    read: list[Row] = []
    for where, batches in batches_of([table(rows)]).items():
        sequence = 0
        of_partition: list[Row] = []
        for encoded in batches:
            batch = RecordBatch(encoded)
            assert (batch.header.producer_id, batch.header.producer_epoch) == (7, 3)
            assert batch.header.base_sequence == sequence
            assert len(encoded) < 2_500 or batch.count == 1
            sequence += batch.count
            of_partition += zip(batch.keys(), batch.values(), strict=True)
        with_key = [row for row in rows if row[0] is not None and partition_for_key(row[0], 4) == where.partition]
        assert [row for row in of_partition if row[0] is not None] == with_key
        read += of_partition
    last = (1, b"")

    def order(row: Row) -> tuple[tuple[int, bytes], ...]:
        return tuple(last if item is None else (0, item) for item in row)

    assert sorted(read, key=order) == sorted(rows, key=order)


def test_few_rows_without_a_key_go_to_one_partition_and_many_to_all() -> None:
    few = batches_of([table([(None, b"x" * 100)] * 10)])
    assert list(few) == [TopicPartition("t", 1)]
    many = batches_of([table([(None, b"x" * 100)] * 1000)])
    assert set(many) == {TopicPartition("t", number) for number in range(4)}


def test_a_partition_that_is_not_there_is_named() -> None:
    rows = pa.table({"partition": pa.array([0, 4], pa.int32()), "value": pa.array([b"", b""], pa.binary())})
    with pytest.raises(UnknownTopicOrPartition, match="column partition is 4, but topic 't' has partitions 0 to 3"):
        Placer("t", TopicPlan(4, 1000), 0, 0).place(rows, sizes_of(rows))


def test_rows_are_parted_by_topic_in_their_order() -> None:
    rows = pa.table({"topic": ["a", "b", "a"], "value": pa.array([b"1", b"2", b"3"], pa.binary())})
    assert {name: some["value"].to_pylist() for name, some in by_topic(rows, None).items()} == {
        "a": [b"1", b"3"],
        "b": [b"2"],
    }


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.record_batch({"topic": pa.array(["a", None]), "value": pa.array([b"1", b"2"], pa.binary())})
    with pytest.raises(ConfigError, match="a row has no topic"):
        as_rows(batch, fixed_topic=False)


def test_text_and_headers_become_bytes() -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"1"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    batch = pa.record_batch({"value": pa.array(["ä", None]), "key": pa.array(["k", "l"]), "headers": headers})
    rows = as_rows(batch, fixed_topic=True)
    read = [
        (key, headers)
        for batches in batches_of([rows]).values()
        for batch in map(RecordBatch, batches)
        for key, headers in zip(batch.keys(), batch.headers(), strict=True)
    ]
    assert sorted(read) == [(b"k", (("h", b"1"),)), (b"l", ())]
    assert rows["value"].to_pylist() == ["ä".encode(), None]


def test_the_first_attempt_says_how_rows_are_placed_and_other_rows_are_refused() -> None:
    first = Note(b"f", False, {"t": TopicPlan(3, 100)})
    assert Note.decode(first.encode()) == first
    assert agreed(Note(b"f", False, {"t": TopicPlan(5, 100)}), first, "it") == first
    with pytest.raises(RowsDiffer, match="it has other rows than when it was tried first"):
        agreed(Note(b"g", False, {}), first, "it")
    with pytest.raises(RowsDiffer, match="keepOrder=false"):
        agreed(Note(b"f", True, {}), first, "it")


def test_the_same_rows_for_another_topic_are_not_the_same_write() -> None:
    first = Note(b"f", False, {"gold": TopicPlan(3, 100)})
    with pytest.raises(RowsDiffer, match="it was begun for gold, not for silver"):
        agreed(Note(b"f", False, {"silver": TopicPlan(3, 100)}), first, "it")


@pytest.mark.parametrize("headers", [[None], [{"key": None, "value": b"1"}]])
def test_headers_that_nobody_could_read_are_refused(headers: list[object]) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch({"value": pa.array([b"1"]), "headers": pa.array([headers], kind)})
    with pytest.raises(InvalidRecord, match="a header whose key is null"):
        as_rows(batch, fixed_topic=True)


def test_more_headers_than_readers_take_are_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    large = pa.array([[{"key": "h", "value": b"x" * (HEADERS_MAX + 1)}]], kind)
    rows = as_rows(pa.record_batch({"value": pa.array([b"1"]), "headers": large}), fixed_topic=True)
    with pytest.raises(MessageTooLarge, match="bytes of headers"):
        batches_of([rows])
