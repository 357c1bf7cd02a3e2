"""Ottla for Spark: ``spark.read.format("ottla")`` and its like, on the Python data source API of pyspark 4.

It uses the light client and pyarrow, and nothing of the broker: executors need no more than that.

- ``source`` is what Spark sees; ``options``, ``positions`` and ``client_options`` say what it was told, ``schema`` which
  columns.
- On the driver's side ``batch_reader`` and ``stream_reader`` decide what is read, with ``planning`` (what brokers tell) or
  ``log_files`` (what stands in folders), ``offsets`` and ``progress`` (limits and slices), ``filters``, and ``committing``
  (a group's progress).
- On an executor ``slice_reader`` makes Arrow of what ``slice_fetch_loop`` (brokers) or ``log_reader`` (files) bring;
  ``clusters`` keeps the connections.

Nothing heavy is imported here: a package ``pyspark_ottla`` beside this one has Spark find it by itself.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Have this session know ``format("ottla")``, where it has not found it by itself."""
    from ottla.spark_jobs.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)
