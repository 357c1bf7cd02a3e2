"""Writing from Spark: rows become columnar batches, and a task that is tried again stores nothing twice.

``task`` is the way of a task's rows: ``rows`` brings them into one shape, ``sorting`` into an order, ``fingerprint`` and
``notes`` see to it that all attempts have the same, ``placing`` and ``batching`` make batches, ``sink_client`` sends them.
``writers`` is what Spark sees.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.spark_jobs.sink.options import SinkOptions
    from ottla.spark_jobs.sink.writers import BatchWriter, StreamWriter


def batch_writer(given: Mapping[str, str], schema: "StructType", overwrite: bool) -> "BatchWriter":
    """For ``df.write``."""
    from ottla.spark_jobs.sink.columns import check_columns
    from ottla.spark_jobs.sink.options import sink_options
    from ottla.spark_jobs.sink.writers import BatchWriter

    options = sink_options(given, streaming=False)
    check_columns(schema, options.topic)
    if overwrite:
        raise ConfigError("a topic cannot be overwritten; write with .mode('append')")
    _check_topic(options)
    return BatchWriter(options)


def stream_writer(given: Mapping[str, str], schema: "StructType", overwrite: bool) -> "StreamWriter":
    """For ``df.writeStream``. ``overwrite`` stands for outputMode complete: as Spark's Kafka sink, it writes all rows again."""
    from ottla.spark_jobs.sink.columns import check_columns
    from ottla.spark_jobs.sink.options import sink_options
    from ottla.spark_jobs.sink.writers import StreamWriter

    options = sink_options(given, streaming=True)
    check_columns(schema, options.topic)
    _check_topic(options)
    return StreamWriter(options)


def _check_topic(options: "SinkOptions") -> None:
    """In the driver, before any task begins; topics that rows name are found by their tasks."""
    from ottla.spark_jobs.sink.sink_client import SinkClient

    if options.topic is not None:
        SinkClient(options.client).check_topic(options.topic)
