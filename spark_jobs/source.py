"""``format("ottla")``: the data source as Spark knows it. What it does stands in the files of its readers and writers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark_jobs.errors import told_plainly
from ottla.wire.errors import OttlaError

if TYPE_CHECKING:
    from ottla.spark_jobs.batch_reader import BatchReader
    from ottla.spark_jobs.stream_reader import RefusedStreamReader, StreamReader


class OttlaDataSource(DataSource):
    """Partition logs as a source and as a sink. Options are those of Spark's Kafka source (docs/spark.md).

    Everything else is imported when it is needed: Spark imports this in the driver, at every planning and in each worker.
    """

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        from ottla.spark_jobs.options import read_options
        from ottla.spark_jobs.schema import whole_schema

        with told_plainly():
            return whole_schema(read_options(self.options).include_headers)

    def reader(self, schema: StructType) -> "BatchReader":
        from ottla.spark_jobs.batch_reader import BatchReader, FilteringBatchReader
        from ottla.spark_jobs.options import read_options
        from ottla.spark_jobs.schema import wanted_columns

        with told_plainly():
            options = read_options(self.options, streaming=False)
            return (FilteringBatchReader if options.pushdown else BatchReader)(options, wanted_columns(schema))

    def streamReader(self, schema: StructType) -> "StreamReader | RefusedStreamReader":  # noqa: N802
        from ottla.spark_jobs.options import read_options
        from ottla.spark_jobs.schema import wanted_columns
        from ottla.spark_jobs.stream_reader import RefusedStreamReader, StreamReader

        try:
            return StreamReader(read_options(self.options, streaming=True), wanted_columns(schema))
        except OttlaError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        with told_plainly():
            return _sink().batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        with told_plainly():
            return _sink().stream_writer(self.options, schema, overwrite)


def _sink() -> Any:
    """Writing, imported by name: who only reads never loads it."""
    return import_module("ottla.spark_jobs.sink")
