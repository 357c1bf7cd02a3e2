"""What Spark calls to write: one object for a batch, one for a stream. Both go to the executors as they are."""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark_jobs.errors import told_plainly
from ottla.spark_jobs.sink.options import SinkOptions
from ottla.spark_jobs.sink.sink_client import SinkClient
from ottla.spark_jobs.sink.task import Written, write_fast, write_once
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

BATCH_ID, QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"
"""Where Spark tells a task which batch of which query it belongs to."""


@dataclass
class TaskWritten(WriterCommitMessage):
    """What a task tells the driver."""

    written: Written


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("ottla")``. With ``writeId`` the same write may be started anew, and goes on where it was."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._writer = options.write_id if options.write_id is not None else f"spark-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task_context().partitionId()
        with told_plainly():
            if not self._options.exactly_once:
                return TaskWritten(write_fast(iterator, self._options, task))
            return TaskWritten(write_once(iterator, self._options, (self._writer, task, 0)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_written(messages, self._writer)
        self._forget()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.warning("a write failed; what its tasks had stored stays writer=%s", self._writer)
        self._forget()

    def _forget(self) -> None:
        """Nobody goes on under a name that was made up; an attempt that still runs keeps its numbers, or gets none."""
        if self._options.exactly_once and self._options.write_id is None:
            try:
                SinkClient(self._options.client).end_all(self._writer)
            except OttlaError as error:  # what is stored is stored; the name is forgotten later
                logger.warning("that a write has ended was not noted writer=%s error=%s", self._writer, error)


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("ottla")``: a batch that is written again, after whatever, is stored once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        task = context.partitionId()
        with told_plainly():
            if not self._options.exactly_once:
                return TaskWritten(write_fast(iterator, self._options, task))
            query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
            if query is None or batch is None:
                raise OttlaError("Spark does not tell which query and batch this is; write with exactlyOnce=false")
            return TaskWritten(write_once(iterator, self._options, (f"spark-{query}", task, int(batch))))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        _log_written(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        logger.warning("a batch failed and comes again batch=%d", batchId)


def _task_context() -> Any:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return context


def _log_written(messages: list[WriterCommitMessage | None], what: str) -> None:
    written = [message.written for message in messages if isinstance(message, TaskWritten)]
    logger.info(
        "written %s rows=%d bytes=%d repeated_tasks=%d", what,
        sum(task.rows for task in written), sum(task.bytes for task in written), sum(task.repeated for task in written),
    )  # fmt: skip
