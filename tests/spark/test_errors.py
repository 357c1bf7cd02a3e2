"""What people are told in the driver: one sentence that names the option and what to do, and no stack of a worker."""

import pytest

from tests.support.spark import produce


def told(action):
    with pytest.raises(Exception) as caught:  # Spark's own kinds
        action()
    text = str(caught.value)
    assert "Traceback" not in text
    return text


def test_a_wrong_option_is_told_when_it_is_loaded(spark):
    assert "unknown option 'subscribeto' of format('ottla'); did you mean subscribe?" in told(
        lambda: spark.batch("t", subscribeTo="x")
    )
    assert "option failOnDataLoss='perhaps' is not allowed; give true or false" in told(
        lambda: spark.batch("t", failOnDataLoss="perhaps")
    )


def test_an_unknown_topic_is_told_with_the_nearest_one(spark, make_topic):
    topic = make_topic()
    text = told(lambda: spark.batch(topic + "x").count())
    assert f"option subscribe='{topic}x': topic '{topic}x' does not exist; did you mean '{topic}'?" in text


def test_offsets_out_of_range_are_told_with_what_there_is(spark, make_topic):
    topic = make_topic()
    produce(spark.bootstrap, topic, [b"a", b"b"])
    starting, ending = f'{{"{topic}": {{"0": 7}}}}', f'{{"{topic}": {{"0": 9}}}}'
    text = told(lambda: spark.batch(topic, startingOffsets=starting).count())
    assert (
        f"option startingOffsets: {topic}-0 holds offsets 0 to 2, and offset 7 was asked for; give failOnDataLoss"
        in text
    )
    assert "option endingOffsets" in told(lambda: spark.batch(topic, endingOffsets=ending).count())
    assert spark.batch(topic, endingOffsets=ending, failOnDataLoss="false").count() == 2
    some = f'{{"{topic}": {{"0": 0, "1": 0}}}}'
    assert f"names {topic}-1, which is not among those that are read" in told(
        lambda: spark.batch(topic, startingOffsets=some).count()
    )


def test_unreachable_brokers_are_told_by_address(spark):
    text = told(lambda: _unreachable(spark))
    assert "option kafka.bootstrap.servers='127.0.0.1:1': no broker answered within 1 s" in text
    assert "Connection refused" in text


def _unreachable(spark):
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.request.timeout.ms": "1000"}
    spark.session.read.format("ottla").options(**options).load().count()


def test_a_wrong_column_is_told(spark, make_topic):
    text = told(lambda: spark.batch(make_topic(), schema="valeu binary").count())
    assert ".schema(...) names the column 'valeu', which is not there; did you mean value?" in text


def test_a_stream_tells_as_a_batch_does(spark, make_topic, tmp_path):
    topic = make_topic()
    text = told(lambda: spark.drain(spark.stream(topic + "x"), tmp_path))
    assert f"topic '{topic}x' does not exist" in text


def test_an_option_that_no_stream_has_is_told_when_the_stream_starts(spark, make_topic, tmp_path):
    text = told(lambda: spark.drain(spark.stream(make_topic(), endingOffsets="latest"), tmp_path))
    assert "option endingOffsets='latest' is for a batch only (spark.read); leave it out" in text


def test_what_happens_in_a_task_is_told_as_well(spark, make_topic, tmp_path, broker):
    (tmp_path / "empty").mkdir()
    text = told(lambda: spark.files("t", tmp_path / "empty").count())
    assert "there is no file replication-offset-checkpoint, so nobody knows what is committed" in text
    assert "there is no such folder" in told(lambda: spark.files("t", tmp_path / "nowhere").count())
