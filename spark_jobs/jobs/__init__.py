"""Spark programs over topics, to be used as they are or to begin from: ``ottla spark run JOB``, or spark-submit.

Each job is a file with ``add_arguments`` (what it can be told) and ``run`` (what it does with a session). What they share:
``arguments`` (options that all have), ``spark_session`` (how a session is opened, here or on a cluster), ``streams`` (reading
a topic, writing one, a line for each batch), ``tables`` and ``statistics_page`` (what is shown to people), ``packing`` (what
executors need, in one file). ``program`` runs a job by its name; ``python -m ottla.spark_jobs.jobs JOB`` does so too.
"""

JOBS = {
    "metrics-monitor": "aggregates of metrics by windows of time, and alerts, written back to topics",
    "log-aggregation": "a topic as partitioned Parquet, every record exactly once",
    "sessions": "what each key did in one go, written back to a topic",
    "topic-statistics": "records, bytes, keys, sizes, the course of time and lag: a table and a page with charts",
}
"""All jobs by the names that people use, each with what it is; module names are the same with underscores."""
