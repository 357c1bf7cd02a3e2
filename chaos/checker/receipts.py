"""The rule about receipts: what the leader claimed with each acknowledgement must fit together and fit the final log."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ottla.chaos.checker.violation import Violation, acked_with_offset, at, of_send
from ottla.chaos.history import Batch, History, Send
from ottla.client.records import Receipt


def receipts_that_lie(history: History) -> Iterator[Violation]:
    """Receipts are optional: an acknowledgement without one is not judged here."""
    leaders: dict[tuple[int, int], tuple[int, Send]] = {}
    logs = _batches(history)
    by_partition: dict[int, list[tuple[Send, Receipt]]] = defaultdict(list)
    for send, partition, offset in acked_with_offset(history.sends):
        receipt = send.receipt
        if receipt is None:
            continue
        by_partition[partition].append((send, receipt))
        yield from _alone(send, receipt, partition, offset, _min_insync(history, send))
        leader, first = leaders.setdefault((partition, receipt.leader_epoch), (receipt.leader, send))
        if leader != receipt.leader:
            what = (
                f"epoch {receipt.leader_epoch} of partition {partition} has two leaders: "
                f"{leader} told {first.value!r}, {receipt.leader} told {send.value!r}"
            )
            yield of_send("two leaders in one epoch", what, send)
        stored = _epoch_at(logs.get(partition, []), offset)
        # Not "equal": an epoch may begin while a record waits for its followers, and one that is sent again is
        # acknowledged by the leader of the day.
        if stored is not None and stored > receipt.leader_epoch:
            what = (
                f"{send.value!r} at {at(partition, offset)} is of epoch {stored}, its receipt of {receipt.leader_epoch}"
            )
            yield of_send("receipt of another epoch", what, send)
    for partition, receipts in by_partition.items():
        yield from _epoch_goes_back(partition, receipts)


def epochs_go_back_in_the_log(history: History) -> Iterator[Violation]:
    """Leader epochs only grow along the offsets of a log."""
    for partition, batches in _batches(history).items():
        for before, batch in pairwise(batches):
            if batch.leader_epoch < before.leader_epoch:
                place = at(partition, batch.base_offset)
                what = f"{place} is of epoch {batch.leader_epoch}, the batch before it of {before.leader_epoch}"
                yield Violation("epoch goes back", what, partition, batch.base_offset)


def _alone(send: Send, receipt: Receipt, partition: int, offset: int, min_insync: int) -> Iterator[Violation]:
    place = at(partition, offset)
    if receipt.high_watermark <= offset:
        what = f"{send.value!r} at {place} was acknowledged with high watermark {receipt.high_watermark}"
        yield of_send("acknowledged too early", what, send)
    if len(receipt.isr) < min_insync:
        what = f"{send.value!r} at {place} was acknowledged with ISR {list(receipt.isr)}, fewer than {min_insync}"
        yield of_send("acknowledged by too few", what, send)


def _min_insync(history: History, send: Send) -> int:
    """The fewest that had to be in sync at any time while a record was under way."""
    lower = (one.min_insync for one in history.lowered if one.began <= send.ended and send.began <= one.ended)
    return min(lower, default=history.min_insync)


def _epoch_goes_back(partition: int, receipts: list[tuple[Send, Receipt]]) -> Iterator[Violation]:
    """What began after an acknowledgement of an epoch is acknowledged in no earlier one."""
    ended = iter(sorted(receipts, key=lambda pair: pair[0].ended))
    following = next(ended, None)
    newest = -1
    for send, receipt in sorted(receipts, key=lambda pair: pair[0].began):
        while following is not None and following[0].ended < send.began:
            newest = max(newest, following[1].leader_epoch)
            following = next(ended, None)
        if receipt.leader_epoch < newest:
            place = at(partition, send.offset)
            what = f"{send.value!r} at {place} has a receipt of epoch {receipt.leader_epoch}, after one of {newest}"
            yield of_send("epoch goes back", what, send)


def _batches(history: History) -> Mapping[int, list[Batch]]:
    """One replica's batches of each partition; that all are the same is another rule."""
    logs: dict[int, list[Batch]] = {}
    for replica in history.replicas:
        logs.setdefault(replica.partition, list(replica.batches))
    return logs


def _epoch_at(batches: list[Batch], offset: int) -> int | None:
    index = bisect_right(batches, offset, key=lambda batch: batch.base_offset) - 1
    if index < 0 or batches[index].next_offset <= offset:
        return None
    return batches[index].leader_epoch
