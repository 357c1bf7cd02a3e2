"""mode=files: the folders of a broker that runs, and copies of them."""

import shutil

import pytest

from ottla.client import Admin
from ottla.spark_jobs.errors import DataLost
from ottla.spark_jobs.log_files import FileCatalog
from ottla.spark_jobs.offsets import Slice
from ottla.spark_jobs.options import read_options
from ottla.spark_jobs.slice_reader import read_slice
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition
from tests.support.spark import eventually, produce

VALUES = [b"value-%06d" % number for number in range(20_000)]
COLUMNS = ("partition", "offset", "value")


def test_files_give_the_same_rows_as_brokers(spark, make_topic, broker):
    topic = make_topic(partitions=3, segment_bytes="100000")
    produce(spark.bootstrap, topic, VALUES, batch_size=16_000, compression_type="lz4")
    produce(spark.bootstrap, topic, VALUES, batch_size=16_000)
    folder = broker.data_path(0)
    eventually(lambda: spark.files(topic, folder).count() == 40_000)
    ours, theirs = spark.files(topic, folder, minPartitions="7"), spark.batch(topic)
    assert ours.exceptAll(theirs).count() == 0
    assert theirs.exceptAll(ours).count() == 0


def test_retention_and_rolled_segments_under_the_reader_are_borne(make_topic, broker):
    topic = make_topic(segment_bytes="100000")
    produce(broker.bootstrap, topic, VALUES, batch_size=16_000)
    options = read_options(
        {"mode": "files", "path": str(broker.data_path(0)), "subscribe": topic, "failOnDataLoss": "false"}
    )
    where = TopicPartition(topic, 0)
    eventually(lambda: FileCatalog(options).offsets({where: LATEST}) == {where: len(VALUES)})
    part = Slice(topic, 0, 0, len(VALUES), folder=str(broker.data_path(0) / f"{topic}-0"))
    reading = read_slice(options, COLUMNS, part)
    found = next(reading).column("offset").to_pylist()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_topic_config(topic, {"retention.bytes": "1", "segment.bytes": "100000"})
    produce(broker.bootstrap, topic, VALUES, batch_size=16_000)
    eventually(lambda: FileCatalog(options).offsets({where: EARLIEST})[where] > len(VALUES) // 2)
    for batch in reading:
        found += batch.column("offset").to_pylist()
    assert found == sorted(set(found)), "none twice, none out of order"
    strict = read_options({"mode": "files", "path": str(broker.data_path(0)), "subscribe": topic})
    with pytest.raises(DataLost, match="from offset 0 on are not in"):
        list(read_slice(strict, COLUMNS, part))


def test_copies_of_several_brokers_are_one_log(spark, make_topic, broker, tmp_path):
    topic = make_topic()
    produce(spark.bootstrap, topic, VALUES[:500])
    eventually(lambda: spark.files(topic, broker.data_path(0)).count() == 500)
    copied(broker, topic, tmp_path / "early")
    produce(spark.bootstrap, topic, VALUES[:500])
    eventually(lambda: spark.files(topic, broker.data_path(0)).count() == 1000)
    copied(broker, topic, tmp_path / "late")
    paths = f"{tmp_path / 'early'},{tmp_path / 'late'}"
    assert spark.files(topic, paths).count() == 1000
    assert spark.files(topic, tmp_path / "late" / f"{topic}-0").count() == 1000


def copied(broker, topic, folder):
    folder.mkdir()
    shutil.copytree(broker.data_path(0) / f"{topic}-0", folder / f"{topic}-0")
    shutil.copy(broker.data_path(0) / "replication-offset-checkpoint", folder)


def test_times_and_offsets_mean_the_same_in_files(spark, make_topic, broker):
    topic = make_topic(retention_ms="-1", segment_bytes="100000")
    with_times(spark.bootstrap, topic)
    folder = broker.data_path(0)
    eventually(lambda: spark.files(topic, folder).count() == 100)
    assert spark.files(topic, folder, startingTimestamp="95000").count() == 5
    assert spark.files(topic, folder, endingTimestamp="10000").count() == 10
    given = {"startingOffsets": f'{{"{topic}": {{"0": 98}}}}'}
    assert spark.files(topic, folder, **given).count() == 2


def with_times(bootstrap, topic):
    from ottla.client import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"v", timestamp_ms=1000 * number)
