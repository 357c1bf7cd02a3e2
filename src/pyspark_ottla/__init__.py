"""By this package Spark finds ``format("ottla")`` by itself: it imports all that are named pyspark_*, wherever it looks for one.

So this import is light: what the source needs is imported when it is used.
"""

from ottla.spark_jobs.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
