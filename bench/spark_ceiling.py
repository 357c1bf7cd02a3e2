"""A source that yields one constant Arrow batch again and again, and a sink that drops all: as fast as Spark and Python are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow

ROWS = 10_000
VALUE = 100
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class CeilingSource(DataSource):
    """``format("ceiling")``; options ``rows`` and ``tasks``. Columns as of ``format("ottla")``, or as ``.schema(...)`` says."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> "CeilingReader":
        return CeilingReader(int(self.options["rows"]), int(self.options["tasks"]), tuple(schema.fieldNames()))

    def writer(self, schema: StructType, overwrite: bool) -> "CeilingWriter":
        return CeilingWriter()


class CeilingWriter(DataSourceArrowWriter):
    """Takes all rows and does nothing with them."""

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int, tasks: int, columns: tuple[str, ...]) -> None:
        self._rows = rows
        self._tasks = tasks
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        batch = constant_batch(self._columns)
        for start in range(0, partition.value, ROWS):
            yield batch.slice(0, min(ROWS, partition.value - start))


def constant_batch(columns: tuple[str, ...]) -> Any:
    from ottla.client.arrow import batches_to_arrow
    from ottla.wire.records import RecordBatch, encode_batch

    encoded = encode_batch([b"v" * VALUE] * ROWS, timestamps=1_700_000_000_000)
    return batches_to_arrow([RecordBatch(encoded)], "topic", 0, columns=columns)
