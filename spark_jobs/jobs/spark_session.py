"""How a job gets its session: on this machine, on a cluster that it names, or from the spark-submit that started it."""

import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark_jobs.jobs.arguments import Given
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENVIRONMENT = "environment"
"""The folder in which executors find what was shipped to them."""

ENVIRONMENT_PYTHON = f"./{ENVIRONMENT}/bin/python"

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
"""Unless told otherwise: progress is told by the job, a line for each batch."""

_NO_LOG = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
"""Without an appender Spark would take these settings for none, and use its own."""


def submitted() -> bool:
    """Whether spark-submit started this process: then master and settings are its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def spark_session(job: str, given: Given) -> "Iterator[SparkSession]":
    """A session that knows format("ottla"), and ends with the block."""
    import ottla.spark_jobs

    with tempfile.TemporaryDirectory(prefix="ottla-spark-") as folder:
        spark = _open(job, given, Path(folder))
        try:
            spark.sparkContext.setLogLevel("OFF")  # what goes wrong comes as an exception
            ottla.spark_jobs.register(spark)
            yield spark
        finally:
            spark.stop()


def _open(job: str, given: Given, folder: Path) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"ottla {job} {given.topic}")
    if submitted():
        for key, value in given.conf:
            builder = builder.config(key, value)
        return builder.getOrCreate()
    builder = builder.master(given.master or "local[*]")
    local = (given.master or "local").startswith("local")
    settings = {**QUIET, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_quiet_log(folder)}"}
    if local:
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has business with it
    if given.environment is not None:
        settings["spark.archives"] = f"{_unpacked(given.environment, folder)}#{ENVIRONMENT}"
        os.environ["PYSPARK_PYTHON"] = ENVIRONMENT_PYTHON
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in {**settings, **dict(given.conf)}.items():
        builder = builder.config(key, value)
    # Spark runs one and the same name of a Python in the driver's folder, to plan, and in those of executors, which unpack
    # the archive where they start. So the driver's JVM starts in a folder where it is unpacked, too.
    before = Path.cwd()
    os.chdir(folder)
    try:
        return builder.getOrCreate()
    finally:
        os.chdir(before)


def _quiet_log(folder: Path) -> str:
    """Settings of Spark's log from its first line on: setLogLevel comes too late for some."""
    file = folder / "log4j2.properties"
    file.write_text(_NO_LOG)
    return str(file)


def _unpacked(archive: str, folder: Path) -> str:
    path = Path(archive).absolute()
    try:
        with tarfile.open(path) as packed:
            packed.extractall(folder / ENVIRONMENT, filter="tar")
    except (OSError, tarfile.TarError) as error:
        raise ConfigError(
            f"--environment {archive} cannot be used: {error}", hint="`ottla spark pack FILE` makes one"
        ) from None
    return str(path)


def for_spark(path: str) -> str:
    """A path as it was meant by who named it; one with a scheme, as hdfs:, is left as it is."""
    return path if "://" in path else str(Path(path).absolute())
