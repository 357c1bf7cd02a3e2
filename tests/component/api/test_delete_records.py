"""Every answer of DeleteRecords."""

import time

import pytest

from ottla.wire.admin import (
    HIGH_WATERMARK,
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    RecordsToDelete,
)
from ottla.wire.errors import (
    InvalidTopic,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import FetchPart
from tests.component.api.served import HERE, THERE, Asked, Served, batch_of, error_of, message_of
from tests.support.waiting import eventually

LONG_MS = 60_000


def delete(served: Served, offset: int, topic: str = "t", timeout_ms: int = LONG_MS) -> Asked:
    return served.ask(DeleteRecordsRequest([RecordsToDelete(topic, 0, offset)], timeout_ms))


async def result_of(asked: Asked) -> DeletedRecords:
    await eventually(lambda: not asked.waits)
    (result,) = message_of(asked, DeleteRecordsResponse).partitions
    return result


def follower_has(served: Served, log_start_offset: int, offset: int = 3) -> None:
    """The follower fetches, and tells so."""
    epoch = served.partition().leader_epoch
    part = FetchPart("t", 0, offset, 1 << 20, epoch, log_start_offset=log_start_offset)
    served.partition().fetched_by(THERE, 7, part, time.monotonic())


@pytest.mark.parametrize(
    ("topic", "offset", "error"),
    [
        ("nowhere", 0, UnknownTopicOrPartition),
        ("not/legal", 0, InvalidTopic),
        ("led-elsewhere", 0, NotLeaderOrFollower),
        ("t", 4, OffsetOutOfRange),
        ("t", 2**62, OffsetOutOfRange),
        ("t", -2, OffsetOutOfRange),
    ],
)
async def test_what_cannot_be_deleted_is_a_typed_error_and_nothing_is(
    served: Served, topic: str, offset: int, error: type[OttlaError]
) -> None:
    await served.decide()
    await served.decide("led-elsewhere", leader=THERE, replicas=(HERE, THERE))
    served.produce(batch_of(b"1", b"2", b"3"))
    assert error_of(await result_of(delete(served, offset, topic))) is error
    assert served.partition().log.log_start_offset == 0


async def test_records_are_gone_for_readers_and_asking_for_less_changes_nothing(served: Served) -> None:
    await served.decide()
    served.produce(batch_of(b"1", b"2", b"3"))
    assert (await result_of(delete(served, 2))).low_watermark == 2
    assert error_of(served.fetch(1)) is OffsetOutOfRange
    assert error_of(served.fetch(2)) is None
    assert (await result_of(delete(served, 1))).low_watermark == 2
    assert (await result_of(delete(served, HIGH_WATERMARK))).low_watermark == 3


async def test_nothing_that_is_not_committed_is_deleted(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    served.produce(batch_of(b"1", b"2", b"3"))
    follower_has(served, 0, offset=0)
    assert served.partition().high_watermark == 0
    assert error_of(await result_of(delete(served, 1))) is OffsetOutOfRange
    follower_has(served, 0, offset=3)
    assert delete(served, 3).waits


async def test_the_answer_waits_until_every_replica_in_sync_has_noted_it(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    served.produce(batch_of(b"1", b"2", b"3"))
    follower_has(served, 0)
    asked = delete(served, 2)
    await eventually(lambda: served.partition().kept_start == 2)
    assert asked.waits
    follower_has(served, 1)
    assert asked.waits
    follower_has(served, 2)
    assert (await result_of(asked)).low_watermark == 2


async def test_who_is_not_in_sync_is_not_waited_for(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), isr=(HERE,))
    served.produce(batch_of(b"1", b"2", b"3"))
    assert (await result_of(delete(served, HIGH_WATERMARK))).low_watermark == 3


async def test_who_may_be_elected_is_waited_for_though_it_is_not_in_sync_and_is_named(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), isr=(HERE,), elr=(THERE,), min_insync_replicas="2")
    served.produce(batch_of(b"1", b"2", b"3"), acks=1)
    served.partition().high_watermark = 3  # as it was before the other one left
    late = await result_of(delete(served, 2, timeout_ms=300))
    assert error_of(late) is RequestTimedOut
    assert late.error_message.endswith(
        f"waited for broker {THERE} (not in sync, but it may be elected: min.insync.replicas)"
    )
    asked = delete(served, 2)
    assert asked.waits
    follower_has(served, 2)
    assert (await result_of(asked)).low_watermark == 2


async def test_whoever_waits_is_told_when_time_is_over_or_another_leads(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    served.produce(batch_of(b"1", b"2", b"3"))
    follower_has(served, 0)
    assert error_of(await result_of(delete(served, 1, timeout_ms=1))) is RequestTimedOut
    asked = delete(served, 2)
    await served.decide(replicas=(HERE, THERE), leader=THERE, epoch=1)
    assert error_of(await result_of(asked)) is NotLeaderOrFollower


async def test_without_a_timeout_only_this_brokers_disk_is_waited_for(served: Served) -> None:
    await served.decide()
    await served.decide("copied", replicas=(HERE, THERE))
    served.produce(batch_of(b"1", b"2", b"3"))
    for timeout_ms in (0, -1):
        assert (await result_of(delete(served, 2, timeout_ms=timeout_ms))).low_watermark == 2
    served.produce(batch_of(b"1", b"2", b"3"), topic="copied")
    copied = served.partition("copied")
    copied.high_watermark = 3
    late = await result_of(delete(served, 2, "copied", timeout_ms=0))
    assert (error_of(late), copied.durable_start) == (RequestTimedOut, 2)
    assert f"waited for broker {THERE}" in late.error_message


async def test_partition_named_twice_is_answered_in_each_place(served: Served) -> None:
    await served.decide()
    served.produce(batch_of(b"1", b"2", b"3"))
    asked = served.ask(DeleteRecordsRequest([RecordsToDelete("t", 0, 2), RecordsToDelete("t", 0, 2)], 1000))
    await eventually(lambda: not asked.waits)
    found = message_of(asked, DeleteRecordsResponse).partitions
    assert [(part.error_code, part.low_watermark) for part in found] == [(0, 2)] * 2
