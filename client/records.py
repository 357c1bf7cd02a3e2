"""What a user gets back: records read, and where records were written."""

import copy
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import msgspec

from ottla.client.arrow import batches_to_arrow
from ottla.wire.errors import OttlaError
from ottla.wire.records import RecordBatch

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import TypeVar as TypeVarWithDefault  # which checkers know though it may not be installed

    # A ``Record`` that does not say of what is one of anything.
    K = TypeVarWithDefault("K", default=Any)
    V = TypeVarWithDefault("V", default=Any)
else:
    K = TypeVar("K")
    V = TypeVar("V")


class Record(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """One record as a consumer gives it: key and value in bytes, or as its deserializers made them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    timestamp_type: int
    """0: when the producer made it; 1: when the broker stored it."""
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]


class FetchedBatch:
    """Records of one partition as they came, column by column: the fast way to read."""

    __slots__ = ("_batch", "_skip", "partition", "topic")

    def __init__(self, topic: str, partition: int, batch: RecordBatch, skip: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self._batch = batch
        self._skip = skip  # a consumer that began in the middle does not get what lies before

    def __len__(self) -> int:
        return self._batch.count - self._skip

    def __repr__(self) -> str:
        return f"<FetchedBatch {self.topic}-{self.partition}, {len(self)} records before offset {self.next_offset}>"

    @property
    def base_offset(self) -> int:
        return self.offsets()[0]

    @property
    def next_offset(self) -> int:
        """Where to go on reading behind this batch."""
        return self._batch.next_offset

    @property
    def timestamp_type(self) -> int:
        return int(self._batch.timestamp_type)

    @property
    def size(self) -> int:
        """The bytes it took on the wire."""
        return self._batch.size

    def offsets(self) -> Sequence[int]:
        return self._batch.offsets()[self._skip :]

    def timestamps(self) -> list[int]:
        return self._batch.timestamps()[self._skip :]

    def keys(self) -> list[bytes | None]:
        return self._batch.keys()[self._skip :] if self._skip else self._batch.keys()

    def values(self) -> list[bytes | None]:
        return self._batch.values()[self._skip :] if self._skip else self._batch.values()

    def headers(self) -> list[tuple[tuple[str, bytes | None], ...]]:
        return self._batch.headers()[self._skip :]

    def to_arrow(self) -> "pyarrow.RecordBatch":
        """The columns that Spark's Kafka source gives: key, value, topic, partition, offset, timestamp, timestampType."""
        return batches_to_arrow([self._batch], self.topic, self.partition).slice(self._skip)

    def records(self) -> list[Record]:
        """The same as objects."""
        return list(
            map(
                Record,
                repeat(self.topic),
                repeat(self.partition),
                self.offsets(),
                self.timestamps(),
                repeat(self.timestamp_type),
                self.keys(),
                self.values(),
                self.headers(),
            )
        )


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """How safe a record was when it was acknowledged. After a retry the record itself may be of an older epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    high_watermark: int


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written. ``offset`` is -1 when nobody was asked to acknowledge it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    receipt: Receipt | None = None
    """With ``receipts=True``."""


class Written(Protocol):
    """A batch that knows where each of its records went."""

    def metadata(self, index: int) -> RecordMetadata: ...


def copy_of(error: OttlaError) -> OttlaError:
    """To be raised for one of many records.

    An exception remembers every place that it was raised at, and threads would write into one another's.
    """
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


class SentRecords(Sequence[RecordMetadata]):
    """Where the records of a ``send_many`` were written, in the order they were given. Looked up when asked for."""

    def __init__(self, count: int, pieces: Sequence[tuple[Sequence[int], Written]]) -> None:
        self._count = count
        self._pieces = pieces  # which of the given records, and the batch they went in
        self._places: list[tuple[Written, int]] | None = None

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<SentRecords, {self._count} in {len(self._pieces)} batches>"

    @overload
    def __getitem__(self, index: int) -> RecordMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | list[RecordMetadata]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if self._places is None:
            self._places = self._find_places()
        written, place = self._places[index]
        return written.metadata(place)

    def _find_places(self) -> list[tuple[Written, int]]:
        found = {record: (written, place) for places, written in self._pieces for place, record in enumerate(places)}
        return [found[record] for record in range(self._count)]
