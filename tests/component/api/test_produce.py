"""Every answer of Produce: batches that are refused, partitions that cannot be written, and acks that wait."""

import random
import time

import pytest

from ottla.broker.replication.partition import Partition
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.batch import CRC_START
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OttlaError,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    StorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import ACKS_ALL, ACKS_NONE
from ottla.wire.requests import FetchPart, ProducePart, ProducePartResult, ProduceRequest, ProduceResponse
from tests.component.api.served import HERE, THERE, Asked, Peer, Served, batch_of, error_of, message_of
from tests.support.lying_batches import LIES, honest, lies_about_its_payload, lying
from tests.support.raw_client import one_record
from tests.support.waiting import eventually

HOUR_MS = 3600 * 1000


async def refused(served: Served, batch: bytes | bytearray) -> type[OttlaError] | None:
    """Why a batch is refused; whatever it is, nothing was appended."""
    if served.partitions.get("t", 0) is None:
        await served.decide()
    before = served.partition().log.log_end_offset
    error = error_of(served.produce(batch))
    assert error is None or served.partition().log.log_end_offset == before
    return error


def fail_disk(served: Served) -> None:
    served.partition().log._disk.fail("testing", OSError(5, "the disk is gone"))


# --- batches that lie ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "error"), LIES, ids=repr)
async def test_a_header_that_lies_is_refused_though_its_crc_is_right(
    served: Served, fields: dict[str, int], error: type[OttlaError]
) -> None:
    assert await refused(served, lying(**fields)) is error


async def test_every_flipped_bit_under_the_crc_is_refused(served: Served) -> None:
    batch = honest()
    for position in range(CRC_START - 4, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 1 << position % 8
        assert await refused(served, damaged) is CorruptMessage, position


async def test_a_batch_cut_at_every_byte_is_refused(served: Served) -> None:
    batch = honest()
    for size in range(len(batch)):
        assert await refused(served, batch[:size]) in (CorruptMessage, InvalidRecord), size


@pytest.mark.parametrize("tail", [b"\x00", b"x" * 60, b"x" * 61, bytes(200)], ids=len)
async def test_a_good_batch_before_a_bad_one_is_not_appended_either(served: Served, tail: bytes) -> None:
    assert await refused(served, honest() + tail) is not None


async def test_a_batch_larger_than_the_topic_allows_is_too_large(served: Served) -> None:
    await served.decide(max_message_bytes="500")
    assert await refused(served, one_record(random.randbytes(600))) is MessageTooLarge
    assert await refused(served, one_record(random.randbytes(100))) is None


@pytest.mark.parametrize(
    ("producer_epoch", "base_sequence", "error"),
    [(32767, 2**31 - 1, OutOfOrderSequenceNumber), (32767, -1, InvalidRecord), (-1, 0, InvalidRecord)],
)
async def test_a_producer_that_begins_in_its_middle_is_refused(
    served: Served, producer_epoch: int, base_sequence: int, error: type[OttlaError]
) -> None:
    batch = lying(producer_id=7_000_000, producer_epoch=producer_epoch, base_sequence=base_sequence)
    assert await refused(served, batch) is error


@pytest.mark.parametrize(
    ("why", "batch"), lies_about_its_payload(), ids=lambda value: value if type(value) is str else ""
)
async def test_a_payload_that_is_not_what_its_header_says_is_refused(
    served: Served, why: str, batch: bytearray
) -> None:
    assert await refused(served, batch) is InvalidRecord, why


async def test_a_timestamp_of_more_than_an_hour_ahead_is_refused(served: Served) -> None:
    now_ms = int(time.time() * 1000)
    for ahead_ms in (HOUR_MS + 60_000, 365 * 24 * HOUR_MS, 2**62 - now_ms):
        assert await refused(served, one_record(b"soon", now_ms + ahead_ms)) is InvalidTimestamp, ahead_ms


async def test_a_timestamp_within_the_hour_or_long_ago_or_none_is_taken(served: Served) -> None:
    now_ms = int(time.time() * 1000)
    for at_ms in (now_ms + HOUR_MS - 60_000, now_ms, 1, 0, -1):
        assert await refused(served, one_record(b"then", at_ms)) is None, at_ms


# --- partitions that cannot be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1, -(2**63), 2**63])
async def test_a_partition_that_is_not_there_is_unknown(served: Served, partition: int) -> None:
    await served.decide()
    assert error_of(served.produce(batch_of(), partition=partition)) is UnknownTopicOrPartition


@pytest.mark.parametrize(("topic", "error"), [("nowhere", UnknownTopicOrPartition), ("not/legal", InvalidTopic)])
async def test_a_topic_that_is_not_there_is_worth_asking_again_for_only_if_it_can_be(
    served: Served, topic: str, error: type[OttlaError]
) -> None:
    await served.decide()
    assert error_of(served.produce(batch_of(), topic)) is error


@pytest.mark.parametrize("replicas", [(HERE, THERE), (THERE,)], ids=["a follower", "no replica at all"])
async def test_who_does_not_lead_says_who_does_and_of_which_topic(served: Served, replicas: tuple[int, ...]) -> None:
    await served.decide(leader=THERE, epoch=5, replicas=replicas)
    result = served.produce(batch_of())
    assert error_of(result) is NotLeaderOrFollower
    assert (result.leader, result.leader_epoch, result.topic_id) == (THERE, 5, "id-of-t")


async def test_too_few_in_sync_refuse_acks_all_and_write_nothing(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), isr=(HERE,), min_insync_replicas="2")
    assert error_of(served.produce(batch_of(), acks=ACKS_ALL)) is NotEnoughReplicas
    assert served.partition().log.log_end_offset == 0
    assert error_of(served.produce(batch_of(), acks=1)) is None


async def test_broker_that_zookeeper_may_have_given_up_takes_only_what_all_must_ack(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    await served.decide(partition=1)
    served.unsure = True
    assert error_of(served.produce(batch_of(), acks=1)) is NotLeaderOrFollower
    assert error_of(served.produce(batch_of(), partition=1)) is None, "nobody else could lead it"
    assert waits(served).waits


async def test_each_part_answers_for_itself(served: Served) -> None:
    await served.decide(partition=0)
    await served.decide(partition=2)
    good = batch_of()
    parts = [ProducePart("t", partition, len(good)) for partition in (0, 9, 2)]
    results = served.answer(ProduceRequest(1, 1000, parts), ProduceResponse, [good, good, good]).parts
    assert [(error_of(part), part.base_offset) for part in results] == [
        (None, 0), (UnknownTopicOrPartition, -1), (None, 0)
    ]  # fmt: skip


async def test_part_that_names_its_topic_by_id_is_appended_to_no_other_topic_of_that_name(served: Served) -> None:
    """A topic may be deleted and made anew between the reading of a long Produce and its handling."""
    await served.decide()
    good = batch_of()
    parts = [ProducePart("t", 0, len(good), topic_id) for topic_id in ("id-of-another", "id-of-t", "")]
    results = served.answer(ProduceRequest(1, 1000, parts), ProduceResponse, [good, good, good]).parts
    assert [(error_of(part), part.base_offset) for part in results] == [(UnknownTopicId, -1), (None, 0), (None, 1)]


async def test_failed_disk_is_a_storage_error(served: Served) -> None:
    await served.decide()
    fail_disk(served)
    assert error_of(served.produce(batch_of())) is StorageError


# --- requests that make no sense -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [2, -2, 2**31 - 1, -(2**63)])
async def test_acks_that_do_not_exist_are_refused_and_nothing_is_appended(served: Served, acks: int) -> None:
    await served.decide()
    with pytest.raises(InvalidRequiredAcks):
        served.produce(batch_of(), acks=acks)
    assert served.partition().log.log_end_offset == 0


@pytest.mark.parametrize("timeout_ms", [-1, 0, 2**31 - 1, -(2**63), 2**63])
async def test_any_timeout_is_taken_as_one_that_makes_sense(served: Served, timeout_ms: int) -> None:
    await served.decide()
    for acks in (1, ACKS_ALL):
        assert error_of(served.produce(batch_of(), acks=acks, timeout_ms=timeout_ms)) is None


async def test_more_parts_than_two_hundred_thousand_are_refused(served: Served) -> None:
    parts = [ProducePart("t", number, 0) for number in range(200_001)]
    with pytest.raises(InvalidRequest):
        served.answer(ProduceRequest(1, 1000, parts), ProduceResponse)


async def test_error_that_nobody_hears_ends_the_connection(served: Served) -> None:
    await served.decide()
    peer, good, bad = Peer(), batch_of(), batch_of()
    bad[-1] ^= 1
    one = [ProducePart("t", 0, len(good))]
    assert served.ask(ProduceRequest(ACKS_NONE, 1000, one), [good], peer).reply is None
    assert not peer.closed
    assert served.ask(ProduceRequest(ACKS_NONE, 1000, one), [bad], peer).reply is None
    assert peer.closed
    peer = Peer()
    assert served.ask(ProduceRequest(ACKS_NONE, 1000, one * 10_001), [], peer).reply is None, (
        "as one that is refused whole"
    )


# --- acks that wait --------------------------------------------------------------------------------------------------------


def waits(served: Served, timeout_ms: int = 60_000, **options: bool) -> Asked:
    """A record with acks=all, on its way."""
    batch = batch_of()
    request = ProduceRequest(ACKS_ALL, timeout_ms, [ProducePart("t", 0, len(batch))], **options)
    return served.ask(request, [batch])


def result_of(asked: Asked) -> ProducePartResult:
    (result,) = message_of(asked, ProduceResponse).parts
    return result


def follower_has(served: Served, offset: int) -> None:
    """The other broker says by its next fetch how far it is."""
    part = FetchPart("t", 0, offset, 1 << 20, served.partition().leader_epoch)
    served.turn.begin()
    served.partition().fetched_by(THERE, 7, part, time.monotonic())
    served.turn.end()


async def test_ack_of_all_waits_for_the_follower_and_no_longer(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = waits(served)
    follower_has(served, 0)
    assert asked.waits
    follower_has(served, 1)
    assert (error_of(result_of(asked)), result_of(asked).base_offset) == (None, 0)
    assert served.purgatories.produce.size == 0


async def test_receipt_tells_what_stood_at_the_acknowledgement(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), epoch=3)
    asked = waits(served, receipts=True)
    follower_has(served, 1)
    receipt = result_of(asked)
    assert (receipt.leader, receipt.leader_epoch, receipt.isr, receipt.high_watermark) == (HERE, 3, (HERE, THERE), 1)


async def test_time_that_is_over_is_an_error_that_says_nothing_of_what_was_written(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = waits(served, timeout_ms=1)
    await eventually(lambda: not asked.waits)
    result = result_of(asked)
    assert (error_of(result), result.base_offset, result.topic_id) == (RequestTimedOut, -1, "")
    follower_has(served, 1)
    assert error_of(result) is RequestTimedOut, "an answer is given once"


async def test_leader_that_steps_down_tells_those_who_wait_and_not_that_nothing_was_written(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = waits(served)
    served.turn.begin()
    await served.decide(leader=THERE, epoch=1, replicas=(HERE, THERE))
    served.turn.end()
    assert (error_of(result_of(asked)), result_of(asked).topic_id) == (NotLeaderOrFollower, "")


async def test_isr_that_shrinks_under_the_minimum_is_an_error_after_the_append(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), min_insync_replicas="2")
    asked = waits(served)
    served.turn.begin()
    await served.decide(replicas=(HERE, THERE), isr=(HERE,), min_insync_replicas="2")
    served.turn.end()
    assert error_of(result_of(asked)) is NotEnoughReplicasAfterAppend


async def test_disk_that_fails_while_acks_wait_is_a_storage_error(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    asked = waits(served)
    served.turn.begin()
    fail_disk(served)
    served.partition().flushed()
    served.turn.end()
    assert error_of(result_of(asked)) is StorageError


async def test_one_part_that_waits_keeps_the_whole_answer(served: Served) -> None:
    await served.decide(partition=0, replicas=(HERE, THERE))
    await served.decide(partition=1)
    batch = batch_of()
    parts = [ProducePart("t", 0, len(batch)), ProducePart("t", 1, len(batch)), ProducePart("t", 2, len(batch))]
    asked = served.ask(ProduceRequest(ACKS_ALL, 60_000, parts), [batch] * 3)
    assert asked.waits
    follower_has(served, 1)
    results = message_of(asked, ProduceResponse).parts
    assert [error_of(result) for result in results] == [None, None, UnknownTopicOrPartition]


@pytest.mark.parametrize("event", ["on_grown", "on_committed", "on_changed", "on_role"])
async def test_listener_that_raises_keeps_no_record_from_being_appended_and_no_other_from_hearing(
    served: Served, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(partition: Partition) -> None:
        raise RuntimeError("it cannot bear that")

    def last(partition: Partition) -> None:
        heard.append(event)

    getattr(served.events, event).insert(0, broken)
    getattr(served.events, event).append(last)
    await served.decide()
    for offset in range(3):
        assert served.produce(batch_of()).base_offset == offset
    assert served.fetch(0).high_watermark == 3
    assert heard
    assert sum("broken" in record.getMessage() for record in caplog.records) == 1


async def test_acks_that_wait_for_the_disk_are_answered_when_that_is_no_longer_asked_for(served: Served) -> None:
    """By the broker's default, changed while it runs; a topic that has its own rule keeps it."""
    await served.decide()
    await served.decide("own", flush_policy="durable")
    served.partitions.set_defaults(LogConfig(flush_policy="durable"), 1)
    batch = batch_of()
    waiting = {
        topic: served.ask(ProduceRequest(-1, 60_000, [ProducePart(topic, 0, len(batch))]), [batch])
        for topic in ("t", "own")
    }
    assert all(asked.waits for asked in waiting.values())
    served.turn.begin()
    served.partitions.set_defaults(LogConfig(), 1)
    served.turn.end()
    assert {topic: asked.waits for topic, asked in waiting.items()} == {"t": False, "own": True}


async def test_another_default_of_min_insync_replicas_counts_at_once(served: Served) -> None:
    await served.decide()
    await served.decide("own", min_insync_replicas="1")
    served.partitions.set_defaults(LogConfig(), 2)
    assert error_of(served.produce(batch_of(), acks=-1)) is NotEnoughReplicas
    assert error_of(served.produce(batch_of(), "own", acks=-1)) is None
    served.partitions.set_defaults(LogConfig(), 1)
    assert error_of(served.produce(batch_of(), acks=-1)) is None
