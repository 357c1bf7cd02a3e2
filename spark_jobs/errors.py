"""How people hear of what went wrong: what Spark does with a Python exception, and what we do about it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.wire.errors import OttlaError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Read by pyspark in the process that failed, when it tells the JVM what happened."""


class DataLost(OttlaError):
    """Records that were to be read are not there any more."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """An error that we foresaw reaches the driver as its one sentence, with what to do, and without the stack of a worker.

    The process that fails is one of Spark's Python workers, which ends with that: what is set in it is set for nobody else.
    An error that nobody foresaw keeps its stack.
    """
    try:
        yield
    except OttlaError as error:
        if error.hint and error.hint not in str(error):
            error.args = (f"{error}; {error.hint}",)
        if _in_spark_worker():
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def data_lost(what: str, fail: bool) -> str:
    """Raise DataLost, or give the words for a warning."""
    if fail:
        raise DataLost(f"{what}; give failOnDataLoss=false to go on with what is left")
    return f"{what}; going on with what is left"


def _in_spark_worker() -> bool:
    return any(name.startswith("PYTHON_WORKER_FACTORY") for name in os.environ)
