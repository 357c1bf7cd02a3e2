"""Every answer of ListOffsets."""

import asyncio
import threading
import time

import pytest

from ottla.broker.api import time_search
from ottla.wire.batch import MAGIC_KAFKA, Codec, check_batch
from ottla.wire.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidTopic,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OttlaError,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import EARLIEST, LATEST, MAX_TIMESTAMP
from ottla.wire.records import encode_batch
from ottla.wire.requests import ListOffsetsPart, ListOffsetsPartResult, ListOffsetsRequest, ListOffsetsResponse
from tests.component.api.served import HERE, THERE, Peer, Served, batch_of, error_of, message_of
from tests.support.lying_batches import changed
from tests.support.machine import scaled
from tests.support.raw_client import one_record
from tests.support.waiting import eventually


async def look(served: Served, part: ListOffsetsPart) -> ListOffsetsPartResult:
    asked = served.ask(ListOffsetsRequest([part]))
    await eventually(lambda: not asked.waits)
    (result,) = message_of(asked, ListOffsetsResponse).parts
    return result


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (ListOffsetsPart("nowhere", 0, LATEST), UnknownTopicOrPartition),
        (ListOffsetsPart("not/legal", 0, LATEST), InvalidTopic),
        (ListOffsetsPart("t", 7, EARLIEST), UnknownTopicOrPartition),
        (ListOffsetsPart("t", 0, -4), InvalidRequest),
        (ListOffsetsPart("t", 0, -(2**63)), InvalidRequest),
        (ListOffsetsPart("t", 0, LATEST, 2), FencedLeaderEpoch),
        (ListOffsetsPart("t", 0, 5, 2), FencedLeaderEpoch),
        (ListOffsetsPart("led-elsewhere", 0, LATEST), NotLeaderOrFollower),
    ],
    ids=repr,
)
async def test_what_cannot_be_looked_up_is_a_typed_error(
    served: Served, part: ListOffsetsPart, error: type[OttlaError]
) -> None:
    await served.decide(epoch=3)
    await served.decide("led-elsewhere", leader=THERE, replicas=(HERE, THERE))
    assert error_of(await look(served, part)) is error


async def test_beginning_end_and_times_are_found(served: Served) -> None:
    await served.decide()
    for at_ms in (10, 20, 30):
        served.produce(one_record(b"v", at_ms)).raise_if_failed()
    found = [await look(served, ListOffsetsPart("t", 0, at)) for at in (EARLIEST, LATEST, 0, 20, 21, 31, 2**63 - 1)]
    assert [(part.offset, part.timestamp_ms) for part in found] == [
        (0, -1), (3, -1), (0, 10), (1, 20), (2, 30), (-1, -1), (-1, -1)
    ]  # fmt: skip


async def test_the_largest_timestamp_is_found_wherever_it_is(served: Served) -> None:
    await served.decide(segment_bytes="100")  # a segment a record
    assert (await look(served, ListOffsetsPart("t", 0, MAX_TIMESTAMP))).offset == -1
    for at_ms in (10, 40, 30, 40, 20):
        served.produce(one_record(b"v", at_ms)).raise_if_failed()
    found = await look(served, ListOffsetsPart("t", 0, MAX_TIMESTAMP))
    assert (found.offset, found.timestamp_ms) == (1, 40)


async def test_batches_without_a_largest_timestamp_are_stored_and_found_by_time(served: Served) -> None:
    """sarama 1.22 leaves it out. Kafka's brokers look at every record for it; here it is the time of the append, and a search
    goes on behind a batch whose header promised more than its records have."""
    await served.decide()
    now_ms = int(time.time() * 1000)
    for ago_ms in (9_000, 6_000, 3_000):
        times = [now_ms - ago_ms, now_ms - ago_ms + 500]
        batch = encode_batch([b"one", b"two"], timestamps=times, magic=MAGIC_KAFKA)
        served.produce(changed(batch, max_timestamp=-1)).raise_if_failed()
    wanted = (now_ms - 10_000, now_ms - 8_900, now_ms - 6_000, now_ms - 5_000, now_ms - 2_500, now_ms - 2_000)
    found = [await look(served, ListOffsetsPart("t", 0, at)) for at in wanted]
    assert [part.offset for part in found] == [0, 1, 2, 4, 5, -1]
    youngest = await look(served, ListOffsetsPart("t", 0, MAX_TIMESTAMP))
    assert youngest.offset in (1, 3, 5), "the youngest of the batch that was stored last, or in the same millisecond"
    log = served.partition().log
    (view, *_) = log.read(0, 1 << 20, up_to=6, at_least_one=True)
    assert check_batch(view).max_timestamp >= now_ms, "a CRC that fits, and no record is later"


async def test_end_is_not_told_before_a_new_leader_knows_what_is_committed(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    served.produce(batch_of())
    await served.decide(replicas=(HERE, THERE), epoch=1)
    assert error_of(await look(served, ListOffsetsPart("t", 0, LATEST))) is OffsetNotAvailable


async def test_partition_named_twice_gets_the_same_answer_in_each_place(served: Served) -> None:
    await served.decide()
    served.produce(one_record(b"v", 10)).raise_if_failed()
    asked = served.ask(ListOffsetsRequest([ListOffsetsPart("t", 0, at) for at in (5, LATEST, 5, LATEST)]))
    await eventually(lambda: not asked.waits)
    found = message_of(asked, ListOffsetsResponse).parts
    assert [(part.error_code, part.offset) for part in found] == [(0, 0), (0, 1)] * 2


async def test_the_age_of_the_first_record_from_an_offset_on_comes_with_the_end(served: Served) -> None:
    await served.decide()
    for at_ms in (10, 20, 30):
        served.produce(one_record(b"v", at_ms)).raise_if_failed()
    served.partition().log.delete_records_before(1)
    found = [await look(served, ListOffsetsPart("t", 0, LATEST, from_offset=at)) for at in (-1, 0, 1, 2, 3, 99)]
    assert [part.offset for part in found] == [3] * 6
    assert [part.timestamp_ms for part in found] == [-1, 20, 20, 30, -1, -1]


async def test_batch_that_is_too_large_to_be_opened_is_told_by_where_it_begins(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever begins there reads older records, and misses none: one client's batch must not spoil the searches of others."""
    await served.decide()
    served.produce(one_record(b"v", 10)).raise_if_failed()
    monkeypatch.setattr(time_search, "RECORDS_MAX", 99)
    large = encode_batch([b""] * 100, timestamps=list(range(20, 120)), codec=Codec.ZSTD)
    served.produce(large).raise_if_failed()
    found = [await look(served, ListOffsetsPart("t", 0, at)) for at in (5, 50, 119, 120, MAX_TIMESTAMP)]
    assert [(part.offset, part.timestamp_ms) for part in found] == [(0, 10), (1, 119), (1, 119), (-1, -1), (1, 119)]
    monkeypatch.setattr(time_search, "RECORDS_MAX", 100)
    assert (await look(served, ListOffsetsPart("t", 0, 50))).offset == 31
    monkeypatch.setattr(time_search, "DECODED_MAX", 10)
    found = [await look(served, ListOffsetsPart("t", 0, at)) for at in (50, MAX_TIMESTAMP)]
    assert [(part.error_code, part.offset) for part in found] == [(0, 1)] * 2


async def test_search_opens_batches_that_lie_only_up_to_a_limit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.decide()
    for _ in range(5):
        served.produce(changed(one_record(b"v", 10), max_timestamp=1_000)).raise_if_failed()
    monkeypatch.setattr(time_search, "OPENED_MAX", 3)
    assert (await look(served, ListOffsetsPart("t", 0, 500))).offset == 3
    monkeypatch.setattr(time_search, "OPENED_MAX", 5)
    assert (await look(served, ListOffsetsPart("t", 0, 500))).offset == -1


async def test_searches_of_a_client_that_has_hung_up_are_not_made(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They occupied the queue: the next client waited for 112 s. And one client's searches are made one by one."""
    await served.decide()
    served.produce(one_record(b"v", 10)).raise_if_failed()
    go_on, searched = threading.Event(), []
    search = time_search._search

    def slow(data: bytes, timestamp_ms: int | None, records: int) -> tuple[int, int] | None:
        searched.append(timestamp_ms)
        go_on.wait(scaled(10))
        return search(data, timestamp_ms, records)

    monkeypatch.setattr(time_search, "_search", slow)
    hostile, other = Peer(), Peer()
    asked = [served.ask(ListOffsetsRequest([ListOffsetsPart("t", 0, 5)] * 50), peer=hostile) for _ in range(20)]
    await eventually(lambda: searched == [5])
    last = served.ask(ListOffsetsRequest([ListOffsetsPart("t", 0, 7)]), peer=other)
    await asyncio.sleep(0.01)
    go_on.set()
    await eventually(lambda: not last.waits)
    assert searched.index(7) <= 3, "it waits for what was begun before, and for nothing else"
    go_on.clear()
    for one in asked:
        one.hang_up()
    done = len(searched)
    go_on.set()
    found = served.ask(ListOffsetsRequest([ListOffsetsPart("t", 0, 8)]), peer=other)
    await eventually(lambda: not found.waits)
    assert len(searched) <= done + 3
