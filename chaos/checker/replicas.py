"""The rule about replicas: at the end all hold the same bytes, offsets and leader epochs included."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest

from ottla.chaos.checker.violation import Violation
from ottla.chaos.history import Batch, History, Replica


def replicas_differ(history: History) -> Iterator[Violation]:
    by_partition: dict[int, list[Replica]] = defaultdict(list)
    for replica in history.replicas:
        by_partition[replica.partition].append(replica)
    for partition, (first, *others) in sorted(by_partition.items()):
        for other in others:
            if (first.size, first.digest) != (other.size, other.digest):
                yield _difference(partition, first, other)


def _difference(partition: int, one: Replica, other: Replica) -> Violation:
    sizes = f"broker {one.broker} has {one.size} bytes, broker {other.broker} has {other.size}"
    for left, right in zip_longest(one.batches, other.batches):
        if left != right:
            offset = (left or right).base_offset
            what = f"partition {partition}: {sizes}; they part at offset {offset}: {_told(left)} and {_told(right)}"
            return Violation("replicas differ", what, partition, offset)
    return Violation("replicas differ", f"partition {partition}: {sizes}; all whole batches are the same", partition)


def _told(batch: Batch | None) -> str:
    if batch is None:
        return "nothing"
    return f"offsets {batch.base_offset} to {batch.next_offset - 1} of epoch {batch.leader_epoch}"
