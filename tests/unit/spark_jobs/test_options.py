"""What a read may be told, and what it says to what it may not."""

import pytest

from ottla.spark_jobs.options import READ_OPTIONS, read_options
from ottla.wire.errors import ConfigError
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
BASE = {**SERVERS, "subscribe": "orders"}


def options(streaming=None, **given):
    return read_options({**BASE, **given}, streaming=streaming)


def refused(given, streaming=None):
    with pytest.raises(ConfigError) as caught:
        read_options(given, streaming=streaming)
    return str(caught.value)


def test_names_are_taken_in_any_case():
    found = read_options({"KAFKA.bootstrap.SERVERS": "a:1", "SUBSCRIBE": "b, a,b", "maxoffsetspertrigger": "7"})
    assert found.choice.topics == ("b", "a")
    assert found.max_offsets_per_trigger == 7
    assert dict(found.client)["bootstrap_servers"] == "a:1"


def test_both_spellings_of_the_servers_and_of_the_group_are_known():
    found = read_options({"bootstrap.servers": "a:1", "subscribe": "t", "kafka.group.id": "g"})
    assert dict(found.client)["bootstrap_servers"] == "a:1"
    assert found.group_id == "g"
    assert read_options({**BASE, "groupId": "g"}).group_id == "g"


def test_defaults_are_those_of_sparks_kafka_source():
    batch, stream = options(streaming=False), options(streaming=True)
    assert (batch.starting.end, batch.ending.end) == (EARLIEST, LATEST)
    assert stream.starting.end == LATEST
    assert (batch.fail_on_data_loss, batch.include_headers) == (True, False)
    assert (batch.max_trigger_delay_ms, batch.poll_timeout_ms, batch.offset_retries) == (900_000, 120_000, 3)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("500ms", 500), ("30s", 30_000), ("2h", 7_200_000), ("250", 250), ("1 min", 60_000)],
)
def test_times_have_units(text, ms):
    assert options(maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_offsets_and_times_of_partitions_are_read():
    found = options(startingOffsets='{"orders": {"0": 23, "1": -2}}').starting
    assert found.offsets == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
    assert found.given(TopicPartition("orders", 0)) == 23
    assert found.given(TopicPartition("orders", 1)) is None
    assert found.questions(TopicPartition("orders", 1)) == EARLIEST
    by_time = options(startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingOffsets="earliest").starting
    assert by_time.questions(TopicPartition("orders", 0)) == 5


def test_a_time_for_all_goes_before_times_of_partitions_and_those_before_offsets():
    found = options(startingTimestamp="9", startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingOffsets="latest")
    assert found.starting.time_ms == 9


def test_offsets_out_of_a_checkpoint_can_be_given_back():
    text = '{"orders": {"0": 7}, "@ids": {"orders": "x"}, "@from": {"orders": {"0": 1}}}'
    assert options(startingOffsets=text).starting.offsets == {TopicPartition("orders", 0): 7}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "kafka.bootstrap.servers"),
        ({"subscribee": "t"}, "did you mean subscribe?"),
        ({"startingoffset": "earliest"}, "did you mean startingOffsets?"),
        ({"zzz": "1"}, "known are mode"),
        ({"assign": '{"t": [0]}'}, "exclude each other"),
        ({"subscribe": " , "}, "option subscribe=' , '"),
        ({"subscribe": "a/b"}, "a/b"),
        ({"startingOffsets": "beginning"}, 'give earliest, latest or JSON such as {"orders"'),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"x": 3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "startingOffsets"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "give error or latest"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "cannot end at the earliest"),
        ({"maxOffsetsPerTrigger": "0"}, "1 or more"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many'"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "no more than maxOffsetsPerTrigger=5"),
        ({"maxTriggerDelay": "soon"}, "'15m'"),
        ({"failOnDataLoss": "maybe"}, "give true or false"),
        ({"mode": "tape"}, "brokers or files"),
        ({"mode": "files"}, "no meaning with mode='files'"),
        ({"path": "/data"}, "mode='files'"),
        ({"groupId": "a", "kafka.group.id": "b"}, "say different things"),
        ({"bootstrap.servers": "x:1"}, "differ"),
        ({"kafka.bootstrap.servers": "nonsense:port"}, "nonsense:port"),
        ({"kafka.security.protocol": "SSL"}, "give PLAINTEXT"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where to begin"),
        ({"kafka.fetch.max.byte": "1"}, "did you mean kafka.fetch.max.bytes?"),
        ({"kafka.request.timeout.ms": "soon"}, "give a number"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(given, words):
    base = {} if not given else dict(BASE)
    if given.get("mode") == "files":
        base = {"bootstrap.servers": "a:1"}
    assert words in refused({"subscribe": "t", **base, **given})


def test_something_must_be_read():
    assert "subscribe, assign or subscribePattern" in refused(SERVERS)
    assert "assign" in refused({**SERVERS, "assign": "[]"})
    assert "assign" in refused({**SERVERS, "assign": '{"t": ["0"]}'})
    assert "regular expression" in refused({**SERVERS, "subscribePattern": "a("})


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupId"])
def test_a_batch_says_what_is_for_streams_only(name):
    assert "spark.readStream" in refused({**BASE, name: "1"}, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushdown"])
def test_a_stream_says_what_is_for_batches_only(name):
    assert "spark.read)" in refused({**BASE, name: "1"}, streaming=True)


def test_a_batch_does_not_begin_at_the_end():
    assert "cannot begin at the latest" in refused({**BASE, "startingOffsets": "latest"}, streaming=False)
    assert "cannot begin at" in refused({**BASE, "startingOffsets": '{"orders": {"0": -1}}'}, streaming=False)


def test_settings_of_kafkas_client_that_mean_nothing_here_are_passed_over_with_one_warning(caplog):
    given = {"kafka.security.protocol": "plaintext", "kafka.session.timeout.ms": "1", "kafka.fetch.max.bytes": "1000"}
    found = dict(options(**given).client)
    assert found["fetch_max_bytes"] == "1000"
    assert [record.getMessage() for record in caplog.records] == [
        "options without a meaning here: kafka.security.protocol, kafka.session.timeout.ms"
    ]


def test_files_need_a_folder_and_nothing_else():
    found = read_options({"mode": "FILES", "path": "/a, /b", "paths": '["/c"]'})
    assert found.paths == ("/a", "/b", "/c")
    assert found.choice.wants("anything", 7)
    assert "needs option path" in refused({"mode": "files"})


@pytest.mark.parametrize(
    ("given", "yes", "no"),
    [
        ({"subscribe": "a,b"}, [("a", 0), ("b", 9)], [("c", 0)]),
        ({"assign": '{"a": [1, 0]}'}, [("a", 0), ("a", 1)], [("a", 2), ("b", 0)]),
        ({"subscribePattern": "met.*"}, [("metrics", 0)], [("my-metrics", 0)]),
    ],
)
def test_only_what_was_chosen_is_read(given, yes, no):
    choice = read_options({**SERVERS, **given}).choice
    assert all(choice.wants(*where) for where in yes)
    assert not any(choice.wants(*where) for where in no)


def test_every_option_stands_in_the_docs():
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs/spark.md").read_text()
    assert [name for name in READ_OPTIONS if f"`{name}`" not in text] == []
