"""spark.readStream.format("ottla") over a live broker."""

import json
import shutil
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.wire.names import TopicPartition
from tests.support.cluster import ottla
from tests.support.machine import scaled
from tests.support.spark import eventually, produce

VALUES = [b"value-%06d" % number for number in range(6000)]


def everything(counts):
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_batches_keep_to_the_limit_and_a_restart_goes_on(spark, make_topic, tmp_path):
    topic = make_topic(partitions=3)
    produce(spark.bootstrap, topic, VALUES)
    batches = spark.drain(spark.stream(topic, maxOffsetsPerTrigger="2500"), tmp_path)
    assert [batch["numInputRows"] for batch in batches] == [2500, 2500, 1000]
    produce(spark.bootstrap, topic, VALUES[:300])
    with Admin(bootstrap_servers=spark.bootstrap) as admin:
        admin.create_partitions({topic: 4})
        eventually(lambda: len(admin.describe_topic(topic).partitions) == 4)
    produce(spark.bootstrap, topic, VALUES[:400])
    assert sum(batch["numInputRows"] for batch in spark.drain(spark.stream(topic), tmp_path)) == 700
    assert spark.drain(spark.stream(topic), tmp_path) == []
    assert spark.written(tmp_path) == everything(counts_of(spark, topic))


def counts_of(spark, topic):
    rows = spark.batch(topic, schema="partition int").groupBy("partition").count().collect()
    return [count for _, count in sorted(map(tuple, rows))]


def test_progress_is_a_groups_and_seen_by_the_command(spark, make_topic, tmp_path):
    topic, group = make_topic(partitions=2), "spark-progress"
    produce(spark.bootstrap, topic, VALUES)
    spark.drain(spark.stream(topic, groupId=group, maxOffsetsPerTrigger="4000"), tmp_path)
    with Admin(bootstrap_servers=spark.bootstrap) as admin:
        lag = admin.group_lag(group)
    assert {where: (one.committed, one.end) for where, one in lag.items()} == {
        TopicPartition(topic, 0): (3000, 3000),
        TopicPartition(topic, 1): (3000, 3000),
    }
    produce(spark.bootstrap, topic, VALUES[:10])
    shown = ottla("group", "lag", group, bootstrap=spark.bootstrap)
    assert shown.returncode == 0
    assert "3005" in shown.stdout


def test_a_stream_runs_and_stops_while_records_come(spark, make_topic, tmp_path):
    topic = make_topic(partitions=2)
    query = (
        spark.stream(topic, startingOffsets="latest").writeStream.format("memory").queryName("coming")
        .option("checkpointLocation", str(tmp_path)).start()
    )  # fmt: skip
    try:
        eventually(lambda: query.lastProgress is not None or query.exception() is not None, scaled(60))
        for _ in range(3):
            produce(spark.bootstrap, topic, VALUES[:100])
        count = spark.session.sql("select count(*) from coming")
        eventually(lambda: spark.session.sql("select count(*) as n from coming").collect()[0]["n"] == 300, scaled(60))
        assert count is not None
        source = json.loads(json.dumps(query.lastProgress["sources"][0]))
        assert topic in source["latestOffset"]
    finally:
        query.stop()
    assert query.exception() is None


def test_a_first_batch_that_is_tried_again_reads_the_same_records(spark, make_topic, tmp_path):
    """Spark keeps where a batch ends, not where the first one began: with `latest` a crash in between lost records."""
    topic = make_topic()
    produce(spark.bootstrap, topic, VALUES[:100])
    start = f'{{"{topic}": {{"0": 90}}}}'
    assert [one["numInputRows"] for one in spark.drain(spark.stream(topic, startingOffsets=start), tmp_path)] == [10]
    crash_in_first_batch(tmp_path)
    later = f'{{"{topic}": {{"0": 95}}}}'  # as `latest` would say by now
    assert [one["numInputRows"] for one in spark.drain(spark.stream(topic, startingOffsets=later), tmp_path)] == [10]


def crash_in_first_batch(folder):
    """The checkpoint as it is when the query dies after it has said how far the first batch goes."""
    checkpoint = Path(folder) / "checkpoint"
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    assert sorted(path.name for path in (checkpoint / "offsets").iterdir() if not path.name.startswith(".")) == ["0"]
    shutil.rmtree(Path(folder) / "out")


def test_a_topic_made_anew_is_not_read_from_the_middle(spark, make_topic, tmp_path):
    topic = make_topic()
    produce(spark.bootstrap, topic, VALUES[:50])
    spark.drain(spark.stream(topic), tmp_path)
    with Admin(bootstrap_servers=spark.bootstrap) as admin:
        admin.delete_topic(topic)
        eventually(lambda: topic not in admin.list_topics())
        admin.create_topic(topic)
    produce(spark.bootstrap, topic, VALUES[:80])
    with pytest.raises(Exception, match="deleted and made anew"):
        spark.drain(spark.stream(topic), tmp_path)
    batches = spark.drain(spark.stream(topic, failOnDataLoss="false"), tmp_path)
    assert [batch["numInputRows"] for batch in batches] == [80]


def test_a_deleted_topic_is_told_or_passed_over(spark, make_topic, tmp_path):
    kept, gone = make_topic(), make_topic()
    both = f"{kept},{gone}"
    for topic in (kept, gone):
        produce(spark.bootstrap, topic, VALUES[:10])
    spark.drain(spark.stream(both), tmp_path)
    with Admin(bootstrap_servers=spark.bootstrap) as admin:
        admin.delete_topic(gone)
        eventually(lambda: gone not in admin.list_topics())
    produce(spark.bootstrap, kept, VALUES[:7])
    with pytest.raises(Exception, match=f"topic '{gone}' was deleted while a stream read it"):
        spark.drain(spark.stream(both), tmp_path)
    batches = spark.drain(spark.stream(both, failOnDataLoss="false"), tmp_path)
    assert [batch["numInputRows"] for batch in batches] == [7]


def test_a_batch_waits_for_enough_records(spark, make_topic, tmp_path):
    topic = make_topic()
    produce(spark.bootstrap, topic, VALUES[:10])
    query = (
        spark.stream(topic, minOffsetsPerTrigger="15", maxTriggerDelay="10m").writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path)).start()
    )  # fmt: skip
    try:
        eventually(lambda: query.lastProgress is not None or query.exception() is not None, scaled(60))
        produce(spark.bootstrap, topic, VALUES[:10])
        eventually(lambda: any(one["numInputRows"] for one in query.recentProgress), scaled(60))
        assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [20]
    finally:
        query.stop()


def test_files_can_be_streamed_too(spark, make_topic, tmp_path, broker):
    topic = make_topic(partitions=2)
    produce(spark.bootstrap, topic, VALUES[:1000])
    eventually(lambda: spark.files(topic, broker.data_path(0)).count() == 1000)
    reader = spark.session.readStream.format("ottla").options(mode="files", subscribe=topic, startingOffsets="earliest")
    batches = spark.drain(reader.load(str(broker.data_path(0))), tmp_path)
    assert sum(batch["numInputRows"] for batch in batches) == 1000
    assert spark.written(tmp_path) == everything([500, 500])
