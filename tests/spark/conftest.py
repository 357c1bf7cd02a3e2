"""One Spark session and one broker for all tests of this folder: a session takes seven seconds to start."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.client import Admin
from ottla.local import LocalCluster
from tests.support.spark import Spark

MakeTopic = Callable[..., str]

QUICK = {"replica.high.watermark.checkpoint.interval.ms": "200", "log.retention.check.interval.ms": "100"}
"""So that files say soon what is committed, and what is to be deleted soon is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has business with it
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, broker_config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def spark(session: SparkSession, broker: LocalCluster) -> Spark:
    return Spark(session, broker.bootstrap)


@pytest.fixture
def make_topic(broker: LocalCluster) -> MakeTopic:
    def make(partitions: int = 1, **config: str) -> str:
        name = f"spark-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topic(
                name, partitions=partitions, config={key.replace("_", "."): value for key, value in config.items()}
            )
        return name

    return make
