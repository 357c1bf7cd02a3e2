"""Records as Kafka's clients know them: batches of Kafka's format as they are, columnar ones converted, each once for a while.

Batches do not change once they are written, so what was made of one serves all readers: it is known by its partition, its
base offset and its CRC. What is kept is bounded by its bytes; what was not asked for longest goes first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from ottla.wire.batch import MAGIC_COLUMNS, Buffer
from ottla.wire.errors import MessageTooLarge, OttlaError
from ottla.wire.kafka.batches import MAGIC_AT, any_columnar, batches_of
from ottla.wire.records import RecordBatch
from ottla.wire.rewriting import as_kafka_batch

KEPT_BYTES: Final = 64 * 1024 * 1024

_KEY_END: Final = 21
"""Base offset, length, leader epoch, magic and CRC stand before: together they tell a batch from all others of its log."""

RECORD_WEIGHT: Final = 16
"""What a record weighs beside its bytes: it is taken apart and put together again, which takes about a microsecond."""

RECORD_MEMORY: Final = 400
"""What a record takes beside its bytes while its batch is converted: objects for its value, key, headers, time and offset."""

HEADER_MEMORY: Final = 24
"""What a byte of headers becomes, at most: a header without a name and a value has four."""

CONVERSION_MEMORY_MAX: Final = 128 * 1024 * 1024
"""For one batch, unpacked. Columns shrink so well that 174 bytes hold 600,000 records. One that needs more is not converted; as
two threads convert (net/answers.py), all conversions together take twice as much."""

Key = tuple[str, int, bytes]


class KafkaBatches:
    """Makes Kafka's batches, from any thread."""

    def __init__(
        self, kept_bytes: int = KEPT_BYTES, unreadable: Callable[[str, int, int], object] | None = None
    ) -> None:
        """``unreadable`` hears, in any thread, of batches that cannot be read: topic, partition and base offset."""
        self._unreadable = unreadable
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[Key, bytearray] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def convert(self, topic: str, partition: int, views: Sequence[Buffer], most: int) -> tuple[list[Buffer], int]:
        """The same records, up to the batch that makes them weigh ``most`` or more, and what they weigh.

        Views that need nothing stay as they are, and weigh nothing.
        """
        if not any_columnar(views):
            return list(views), 0
        made: list[Buffer] = []
        total = 0
        for batch in (batch for view in views for batch in batches_of(view)):
            if total >= most:
                break
            try:
                piece, weight = self._one(topic, partition, batch)
            except OttlaError:
                if made:
                    break  # what lies before it is whole
                raise
            made.append(piece)
            total += weight
        return made, total

    def _one(self, topic: str, partition: int, batch: memoryview) -> tuple[Buffer, int]:
        """What is made of a batch, and what it weighs: what was made before, no more than its bytes."""
        if batch[MAGIC_AT] != MAGIC_COLUMNS:
            return batch, len(batch)
        key = (topic, partition, bytes(batch[:_KEY_END]))
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known, len(known)
        try:
            # Invariant [I19]: what is converted gets another CRC, so that of the batch itself is checked before.
            columnar = _opened(batch)
            made = as_kafka_batch(columnar)
        except MessageTooLarge as error:
            raise MessageTooLarge(
                f"a batch of {topic}-{partition} is too large for clients of Kafka's: {error}"
            ) from None
        except OttlaError:
            if self._unreadable is not None:
                self._unreadable(topic, partition, int.from_bytes(batch[:8], "big", signed=True))
            raise
        with self._lock:
            if key not in self._kept and len(made) <= self._kept_bytes // 4:
                self._kept[key] = made
                self._size += len(made)
            while self._size > self._kept_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
        unpacked = sum(len(column) for column in columnar.columns() if column is not None)
        return made, max(len(made), unpacked + RECORD_WEIGHT * columnar.count)


def _opened(batch: memoryview) -> RecordBatch:
    """A batch that is unpacked only if that takes no more memory than it may. MessageTooLarge, now or when it is unpacked."""
    columnar = RecordBatch(batch)
    left = CONVERSION_MEMORY_MAX - columnar.count * RECORD_MEMORY
    if left <= 0:
        raise MessageTooLarge(
            f"{columnar.count} records; at most {CONVERSION_MEMORY_MAX // RECORD_MEMORY} can be converted"
        )
    opened = RecordBatch(batch, verify=False, decoded_max=left)
    headers = opened.columns().headers
    if headers is not None and len(headers) * HEADER_MEMORY > left:
        raise MessageTooLarge(f"{len(headers)} bytes of headers; at most {left // HEADER_MEMORY} can be converted")
    return opened
