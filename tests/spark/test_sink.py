"""Writing with Spark, batch and stream, to a live broker."""

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame

from ottla.client import Consumer, Producer
from tests.spark.conftest import MakeTopic
from tests.spark.copying_job import shuffled
from tests.support.spark import WAIT_S, Spark, dotted, produce
from tests.support.znodes import children_of


@pytest.fixture
def target(make_topic: MakeTopic) -> str:
    return make_topic(3)


def write(spark: Spark, frame: DataFrame, topic: str | None = None, **options: str) -> None:
    given = {"kafka.bootstrap.servers": spark.bootstrap, **dotted(options)}
    if topic is not None:
        given["topic"] = topic
    frame.write.format("ottla").mode("append").options(**given).save()


def records(
    spark: Spark, topic: str
) -> Iterator[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    with Consumer(
        topic, bootstrap_servers=spark.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1_000
    ) as consumer:
        for record in consumer:
            yield record.key, record.value, tuple(record.headers)


def values(spark: Spark, topic: str) -> Counter[bytes | None]:
    return Counter(value for _, value, _ in records(spark, topic))


def test_what_is_written_is_read_back(spark, target):
    rows = spark.session.range(1_000).selectExpr(
        "if(id % 3 = 0, null, cast(id % 7 as string)) as key",
        "if(id % 50 = 0, null, cast(id as string)) as value",
        "array(struct('n' as key, cast(cast(id as string) as binary) as value)) as headers",
    )
    write(spark, rows, target)
    expected = Counter(
        (
            None if number % 3 == 0 else b"%d" % (number % 7),
            None if number % 50 == 0 else b"%d" % number,
            (("n", b"%d" % number),),
        )
        for number in range(1_000)
    )
    assert Counter(records(spark, target)) == expected
    assert spark.batch(target).count() == 1_000


def test_a_key_goes_where_producers_put_it(spark, target):
    write(spark, spark.session.range(300).selectExpr("concat('k', id) as key", "'spark' as value"), target)
    with Producer(bootstrap_servers=spark.bootstrap) as producer:
        places = {
            number: producer.send(target, b"ours", key=b"k%d" % number).result(WAIT_S).partition
            for number in range(300)
        }
    rows = spark.batch(target).where("value = 'spark'").selectExpr("cast(key as string) as key", "partition").collect()
    assert {int(row["key"][1:]): row["partition"] for row in rows} == places


def test_rows_may_name_topic_and_partition(spark, make_topic):
    topics = [make_topic(2), make_topic(2)]
    rows = spark.session.createDataFrame(
        [(topics[number % 2], number % 2, f"{number}") for number in range(20)],
        "topic string, partition int, value string",
    )
    write(spark, rows)
    for number, topic in enumerate(topics):
        read = spark.batch(topic).selectExpr("partition", "cast(cast(value as string) as int) as value").collect()
        assert {(row["partition"], row["value"]) for row in read} == {
            (one % 2, one) for one in range(20) if one % 2 == number
        }


def test_a_write_that_is_started_anew_under_its_id_stores_nothing_twice(spark, target):
    rows = spark.session.range(500).selectExpr("cast(id as string) as value")
    for _ in range(3):
        write(spark, rows, target, writeId=f"once-{target}")
    write(spark, rows, target, writeId=f"another-{target}")
    assert set(values(spark, target).values()) == {2}
    assert len(values(spark, target)) == 500


def test_a_write_whose_name_was_made_up_leaves_none_behind_whether_it_succeeds_or_fails(spark, broker, target):
    rows = spark.session.range(100).repartition(3).selectExpr("cast(id as string) as value")
    before = sorted(children_of(broker, "/producers"))
    write(spark, rows, target)
    with pytest.raises(PySparkException):
        write(spark, rows.selectExpr("value", "if(value = '50', 99, 0) as partition"), target)
    assert sorted(children_of(broker, "/producers")) == before
    write(spark, rows, target, writeId=f"kept-{target}")
    assert sorted(children_of(broker, "/producers")) == sorted([*before, f"kept-{target}"])


def test_other_rows_under_the_same_id_are_refused_with_a_reason(spark, target):
    write(spark, spark.session.range(10).selectExpr("cast(rand() as string) as value"), target, writeId=f"r-{target}")
    with pytest.raises(PySparkException, match="has other rows than when it was tried first") as raised:
        write(
            spark, spark.session.range(10).selectExpr("cast(rand() as string) as value"), target, writeId=f"r-{target}"
        )
    assert "rand()" in str(raised.value)
    assert sum(values(spark, target).values()) == 10


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_a_stream_is_written(spark, make_topic, target, tmp_path, exactly_once):
    source = make_topic(2)
    for block in range(3):
        produce(spark.bootstrap, source, [b"%d" % number for number in range(block * 1_000, block * 1_000 + 1_000)])
        copy(spark, source, target, tmp_path, exactlyOnce=exactly_once)
    assert values(spark, target) == Counter(b"%d" % number for number in range(3_000))


def copy(spark: Spark, source: str, target: str, folder: object, **options: str) -> None:
    rows = spark.stream(source, maxOffsetsPerTrigger="700").select("key", "value")
    query = (
        rows.mapInArrow(shuffled, "key binary, value binary")
        .writeStream.format("ottla")
        .options(**{"kafka.bootstrap.servers": spark.bootstrap, "topic": target, **options})
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_S))
    error = query.exception()
    if error is not None:
        raise error


def test_a_batch_that_spark_writes_again_is_stored_once(spark, make_topic, target, tmp_path):
    """As when a driver dies after the rows are written and before Spark has noted it."""
    source = make_topic(2)
    produce(spark.bootstrap, source, [b"%d" % number for number in range(1_000)])
    copy(spark, source, target, tmp_path)
    for noted in (tmp_path / "checkpoint" / "commits").iterdir():
        if not noted.is_dir():
            noted.unlink()
    copy(spark, source, target, tmp_path)
    assert values(spark, target) == Counter(b"%d" % number for number in range(1_000))


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("'x' as value", {}, "where shall the rows go? Give the option topic, or a column topic"),
        ("'x' as text", {"topic": "t"}, "there is no column value among text"),
        ("1 as value", {"topic": "t"}, "column value is int, not string or binary; cast it"),
        ("'x' as value", {"topic": "t", "exactlyOne": "true"}, "did you mean exactlyOnce?"),
        (
            "'x' as value",
            {"topic": "t", "kafka__acks": "1"},
            "option kafka.acks='1' is not allowed; give all, or 1 with",
        ),
        ("'x' as value", {"topic": "t", "sortMemory": "1"}, "option sortMemory='1' is not allowed; give a size"),
        ("'x' as value", {"topic": "t t"}, "option topic:"),
        (
            "'x' as value",
            {"topic": "nowhere"},
            "option topic='nowhere': topic 'nowhere' does not exist; create it first",
        ),
        (
            "'x' as value",
            {"topic": "t", "kafka__bootstrap__servers": "127.0.0.1:1", "kafka__request__timeout__ms": "1000"},
            "option kafka.bootstrap.servers='127.0.0.1:1': no broker answered within 1 s",
        ),
        (
            "inline(array(struct('x' as value, 'nowhere' as topic)))",
            {"kafka__max__block__ms": "300"},
            "topic 'nowhere' does not exist",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(spark, columns, options, told):
    with pytest.raises(PySparkException) as raised:
        write(spark, spark.session.range(1).selectExpr(columns), **options)
    assert told in str(raised.value)


def test_a_topic_is_not_overwritten(spark, target):
    frame = spark.session.range(1).selectExpr("'x' as value")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.write.format("ottla").mode("overwrite").options(
            **{"kafka.bootstrap.servers": spark.bootstrap, "topic": target}
        ).save()
