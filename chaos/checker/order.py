"""Rules about the order of writes: per producer, per key, and in real time."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation, acked_with_offset, at, of_send
from ottla.chaos.history import History, Read, Send


def stored_out_of_order(history: History) -> Iterator[Violation]:
    """What one producer sends to one partition, and so to one key, is stored in the order in which it was sent."""
    origin: dict[bytes, tuple[int, Send]] = {}
    for rank, send in enumerate(history.sends):
        origin[send.value] = (rank, send)
    for partition, found in history.reads.items():
        newest: dict[str, tuple[int, Send]] = {}
        for read in sorted(found, key=lambda read: read.offset):
            if read.value is None or read.value not in origin:
                continue
            rank, send = origin[read.value]
            before = newest.get(send.producer)
            if before is not None and rank < before[0]:
                what = f"{send.value!r} stands behind {before[1].value!r} at {at(partition, read.offset)}"
                yield of_send("non-monotonic send", what, send, partition, read.offset)
            else:
                newest[send.producer] = (rank, send)


def stored_in_the_past(history: History) -> Iterator[Violation]:
    """A write that began after another was acknowledged stands behind it."""
    by_partition: dict[int, list[tuple[Send, int]]] = defaultdict(list)
    for send, partition, offset in acked_with_offset(history.sends):
        by_partition[partition].append((send, offset))
    for partition, acked in by_partition.items():
        ended = iter(sorted(acked, key=lambda pair: pair[0].ended))
        following = next(ended, None)
        highest, highest_value = -1, b""
        for send, offset in sorted(acked, key=lambda pair: pair[0].began):
            while following is not None and following[0].ended < send.began:
                if following[1] > highest:
                    highest, highest_value = following[1], following[0].value
                following = next(ended, None)
            if offset <= highest:
                place = at(partition, offset)
                what = (
                    f"{send.value!r} began after {highest_value!r} was acknowledged at offset {highest} and got {place}"
                )
                yield of_send("stored in the past", what, send)


def key_moved(history: History) -> Iterator[Violation]:
    """All records of one key stand in one partition, whoever sent them: nobody adds partitions during a run."""
    homes: dict[bytes, tuple[int, Read]] = {}
    origin = {send.value: send for send in history.sends}
    for partition, found in sorted(history.reads.items()):
        for read in found:
            if read.key is None:
                continue
            home, first = homes.setdefault(read.key, (partition, read))
            if home != partition:
                what = f"key {read.key!r} is in partition {home} ({first.value!r}) and in {partition} ({read.value!r})"
                send = origin.get(read.value or b"")
                where = (partition, read.offset)
                yield of_send("key moved", what, send, *where) if send else Violation("key moved", what, *where)
