"""The ``ottla`` command as a user's shell runs it, against a live cluster."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.zk.ensemble.ports import free_ports
from tests.support.cluster import ottla
from tests.support.machine import scaled

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(cluster1: LocalCluster) -> str:
    """A topic of this test's own, with two partitions."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=cluster1.bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    return name


@pytest.fixture
def filled(cluster1: LocalCluster, topic: str) -> str:
    """The same with records 0 to 9 in partition 0, timed 1000 to 1009 ms, and x in partition 1."""
    with Producer(bootstrap_servers=cluster1.bootstrap) as producer:
        for i in range(10):
            producer.send(topic, b"%d" % i, key=b"k", headers=[("h", b"1")], partition=0, timestamp_ms=1000 + i)
        producer.send(topic, b"\xff", partition=1, timestamp_ms=5000)
        producer.flush(20)
    return topic


# --- topic ---------------------------------------------------------------------------------------------------------------


def test_topic_is_created_listed_described_and_deleted(cluster1: LocalCluster) -> None:
    name, bootstrap = f"cli-{uuid.uuid4().hex[:12]}", cluster1.bootstrap
    created = ottla("topic", "create", name, "-p", "3", "-r", "1", "-c", "retention.ms=60000", bootstrap=bootstrap)
    assert (created.returncode, created.stderr) == (0, "")
    assert name in created.stdout

    listed = ottla("topic", "list", "--format", "json", bootstrap=bootstrap)
    assert {"topic": name, "partitions": 3, "replication_factor": 1} in json.loads(listed.stdout)

    described = ottla("topic", "describe", name, bootstrap=bootstrap)
    lines = [line.split("\t") for line in described.stdout.splitlines()]
    assert lines[0] == ["Topic", "TopicId", "PartitionCount", "ReplicationFactor", "Configs"]
    assert [lines[1][0], *lines[1][2:]] == [name, "3", "1", "retention.ms=60000"]
    columns = ["Partition", "Leader", "Replicas", "Isr", "Elr", "Lost", "Moving"]
    assert lines[3:] == [columns, *([str(p), "0", "0", "0", "", "", ""] for p in range(3))]

    assert ottla("topic", "delete", name, "--yes", bootstrap=bootstrap).returncode == 0
    gone = ottla("topic", "describe", name, bootstrap=bootstrap)
    assert gone.returncode == 4
    assert re.fullmatch(rf"error: topic '{name}' does not exist\nhint: .*\n", gone.stderr)


def test_several_topics_are_created_described_and_deleted_at_once(cluster1: LocalCluster, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    made = ottla("topic", "create", *names, "-p", "2", bootstrap=cluster1.bootstrap)
    assert [line.split(",")[0] for line in made.stdout.splitlines()] == [
        f"created topic {name} with 2 partitions" for name in names
    ]
    told = ottla("topic", "describe", *names, "--format", "json", bootstrap=cluster1.bootstrap)
    assert [each["topic"] for each in json.loads(told.stdout)] == names
    missing = ottla("topic", "delete", names[0], f"{topic}-c", "--yes", bootstrap=cluster1.bootstrap)
    assert (missing.returncode, missing.stdout) == (4, f"deleted topic {names[0]}\n")
    gone = ottla("topic", "delete", names[1], "--yes", bootstrap=cluster1.bootstrap)
    assert gone.stdout == f"deleted topic {names[1]}\n"


def test_under_replicated_partitions_are_none_where_all_is_well(cluster1: LocalCluster, topic: str) -> None:
    done = ottla("topic", "describe", "--under-replicated", "--format", "json", bootstrap=cluster1.bootstrap)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert ottla("topic", "describe", bootstrap=cluster1.bootstrap).returncode == 2


def test_topic_described_as_json_has_all_fields(cluster1: LocalCluster, topic: str) -> None:
    value = json.loads(ottla("topic", "describe", topic, "--format", "json", bootstrap=cluster1.bootstrap).stdout)
    assert value["topic"] == topic
    assert value["partition_count"] == 2
    first = value["partitions"][0]
    assert {key: first[key] for key in ("partition", "leader", "replicas", "isr")} == {
        "partition": 0, "leader": 0, "replicas": [0], "isr": [0],
    }  # fmt: skip


def test_topic_gets_more_partitions_and_other_settings(cluster1: LocalCluster, topic: str) -> None:
    bootstrap = cluster1.bootstrap
    assert ottla("topic", "alter", topic, "-p", "4", "-c", "retention.ms=1000", bootstrap=bootstrap).returncode == 0
    assert ottla("topic", "alter", topic, "-c", "segment.bytes=1000000", bootstrap=bootstrap).returncode == 0
    described = json.loads(ottla("topic", "describe", topic, "--format", "json", bootstrap=bootstrap).stdout)
    assert described["partition_count"] == 4
    assert described["configs"] == {"retention.ms": "1000", "segment.bytes": "1000000"}
    assert ottla("topic", "alter", topic, "-c", "retention.ms=", bootstrap=bootstrap).returncode == 0
    described = json.loads(ottla("topic", "describe", topic, "--format", "json", bootstrap=bootstrap).stdout)
    assert described["configs"] == {"segment.bytes": "1000000"}
    assert ottla("topic", "alter", topic, "--unset", "segment.bytes", bootstrap=bootstrap).returncode == 0
    described = json.loads(ottla("topic", "describe", topic, "--format", "json", bootstrap=bootstrap).stdout)
    assert described["configs"] == {}
    fewer = ottla("topic", "alter", topic, "-p", "2", bootstrap=bootstrap)
    assert (fewer.returncode, fewer.stderr.splitlines()[0].startswith("error: ")) == (1, True)
    assert ottla("topic", "alter", topic, bootstrap=bootstrap).returncode != 0


def test_partitions_are_moved_and_leaders_elected(cluster1: LocalCluster, topic: str) -> None:
    bootstrap = cluster1.bootstrap
    assert ottla("partition", "move", topic, "0", "0", bootstrap=bootstrap).returncode == 0
    unknown = ottla("partition", "move", topic, "0", "77", bootstrap=bootstrap)
    assert (unknown.returncode, "77" in unknown.stderr) == (1, True)
    assert ottla("partition", "elect", bootstrap=bootstrap).returncode == 0
    assert ottla("partition", "elect", f"{topic}:1", bootstrap=bootstrap).returncode == 0
    assert ottla("partition", "elect", "nonsense", bootstrap=bootstrap).returncode != 0


def test_topic_that_exists_is_an_error_unless_that_is_fine(cluster1: LocalCluster, topic: str) -> None:
    again = ottla("topic", "create", topic, bootstrap=cluster1.bootstrap)
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert "hint: give --if-not-exists" in again.stderr
    assert ottla("topic", "create", topic, "--if-not-exists", bootstrap=cluster1.bootstrap).returncode == 0


def test_broken_rules_of_topics_are_told(cluster1: LocalCluster) -> None:
    for arguments in (["a/b"], ["fine", "-r", "3"], ["fine", "-p", "0"], ["fine", "-c", "retention.ms=soon"]):
        failed = ottla("topic", "create", *arguments, bootstrap=cluster1.bootstrap)
        assert failed.returncode == 1, arguments
        assert failed.stderr.startswith("error: ")
        assert "Traceback" not in failed.stderr


def test_mistyped_topic_is_guessed(cluster1: LocalCluster, topic: str) -> None:
    mistyped = ottla("topic", "delete", topic + "x", "--yes", bootstrap=cluster1.bootstrap)
    assert mistyped.returncode == 4
    assert f"hint: did you mean {topic}?" in mistyped.stderr


# --- produce -------------------------------------------------------------------------------------------------------------


def read(cluster: LocalCluster, topic: str, count: int) -> list[tuple[int, bytes | None, bytes, object]]:
    found: list[tuple[int, bytes | None, bytes, object]] = []
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            records = consumer.poll(timeout=scaled(20))
            assert records
            found += [(record.partition, record.key, record.value, record.headers) for record in records]
    return found


def test_each_line_of_input_is_a_record(cluster1: LocalCluster, topic: str) -> None:
    lines = b"".join(b"line %d\n" % i for i in range(3000)) + b"\xff no text, no line end"
    done = ottla("produce", topic, "-p", "1", "-z", "lz4", "--acks", "1", bootstrap=cluster1.bootstrap, stdin=lines)
    assert (done.returncode, done.stdout) == (0, "")
    assert "wrote 3001 records" in done.stderr
    values = [value for _, _, value, _ in read(cluster1, topic, 3001)]
    assert values == lines.split(b"\n")


def test_keys_and_headers_are_written(cluster1: LocalCluster, topic: str) -> None:
    options = ("-K", ":", "-H", "a=1", "-H", "b=x=y", "-p", "0")
    assert ottla("produce", topic, *options, bootstrap=cluster1.bootstrap, stdin=b"k:v:w\n").returncode == 0
    assert (
        ottla("produce", topic, "-k", "fixed", "--value", "one", "-p", "0", bootstrap=cluster1.bootstrap).returncode
        == 0
    )
    assert read(cluster1, topic, 2) == [
        (0, b"k", b"v:w", (("a", b"1"), ("b", b"x=y"))),
        (0, b"fixed", b"one", ()),
    ]


def test_producing_to_what_is_not_there_ends_with_4_at_once(cluster1: LocalCluster, topic: str) -> None:
    started = time.monotonic()
    assert ottla("produce", "nowhere-at-all", "--value", "x", bootstrap=cluster1.bootstrap).returncode == 4
    assert ottla("produce", topic, "-p", "9", "--value", "x", bootstrap=cluster1.bootstrap).returncode == 4
    assert time.monotonic() - started < scaled(10)


def test_wrong_options_of_produce_end_with_2(cluster1: LocalCluster, topic: str) -> None:
    for options in (["--acks", "some"], ["-z", "zip"], ["-K", ":"]):
        failed = ottla("produce", topic, *options, bootstrap=cluster1.bootstrap, stdin=b"no delimiter\n")
        assert failed.returncode == 2, failed.stderr
        assert failed.stderr.startswith("error: ")


# --- consume -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["-e"], "0 1 2 3 4 5 6 7 8 9"),
        (["-n", "3"], "0 1 2"),
        (["-o", "7", "-e"], "7 8 9"),
        (["-o", "-2", "-e"], "8 9"),
        (["-o", "@1004", "-n", "2"], "4 5"),
        (["-o", "latest", "-e"], ""),
        (["-o", "-99", "-n", "1"], "0"),
        (["-o", "3", "-u", "6"], "3 4 5"),
        (["-u", "@1002"], "0 1"),
        (["-o", "@1970-01-01T00:00:01.008Z", "-e"], "8 9"),
    ],
)
def test_reading_begins_and_ends_where_it_is_told(
    cluster1: LocalCluster, filled: str, options: list[str], values: str
) -> None:
    done = ottla("consume", filled, "-p", "0", *options, bootstrap=cluster1.bootstrap)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, values.split(), "")


def test_an_offset_that_is_not_there_is_told(cluster1: LocalCluster, filled: str) -> None:
    done = ottla("consume", filled, "-p", "0", "-o", "99", "-e", bootstrap=cluster1.bootstrap)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{filled}[0] has 0 to 10, not 99" in done.stderr


def test_records_are_printed_as_the_format_says(cluster1: LocalCluster, filled: str) -> None:
    done = ottla("consume", filled, "-p", "0", "-n", "2", "-f", r"%t[%p]@%o %k %v\n", bootstrap=cluster1.bootstrap)
    assert done.stdout == f"{filled}[0]@0 k 0\n{filled}[0]@1 k 1\n"


def test_records_as_json_are_one_object_per_line(cluster1: LocalCluster, filled: str) -> None:
    done = ottla("consume", filled, "-e", "--format", "json", bootstrap=cluster1.bootstrap)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == 11
    assert next(record for record in records if record["partition"] == 1)["value"] == {"base64": "/w=="}
    assert next(record for record in records if record["partition"] == 0) == {
        "topic": filled, "partition": 0, "offset": 0, "timestamp": 1000,
        "key": "k", "value": "0", "headers": [{"key": "h", "value": "1"}],
    }  # fmt: skip


def test_partitions_are_read_from_places_of_their_own(cluster1: LocalCluster, filled: str) -> None:
    done = ottla("consume", filled, "-o", "0:8,1:latest", "-e", bootstrap=cluster1.bootstrap)
    assert (done.returncode, done.stdout.split()) == (0, ["8", "9"])
    both = ottla("consume", filled, "-p", "0", "-p", "1", "-e", "-f", "%p", bootstrap=cluster1.bootstrap)
    assert sorted(both.stdout) == ["0"] * 10 + ["1"]


def test_records_printed_as_json_can_be_written_again(cluster1: LocalCluster, filled: str) -> None:
    printed = ottla("consume", filled, "-e", "-f", "json", bootstrap=cluster1.bootstrap).stdout
    done = ottla("produce", filled, "-f", "json", bootstrap=cluster1.bootstrap, stdin=printed.encode())
    assert (done.returncode, done.stderr) == (0, f"wrote 11 records to {filled}\n")
    again = ottla("consume", filled, "-e", "-f", "json", bootstrap=cluster1.bootstrap).stdout

    def content(text: str) -> list[str]:
        lines = [json.loads(line) for line in text.splitlines()]
        return sorted(json.dumps([line[name] for name in ("key", "value", "timestamp", "headers")]) for line in lines)

    assert content(again) == sorted(content(printed) * 2)


def test_tombstones_delimiters_and_files_are_written(cluster1: LocalCluster, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"two\nlines\n")
    for options, stdin in (
        (("-K", ":", "-Z"), b"gone:\n"),
        (("-D", ";"), b"a;b\nc"),
        ((str(tmp_path / "file"),), b""),
    ):
        assert ottla("produce", topic, "-p", "0", *options, bootstrap=cluster1.bootstrap, stdin=stdin).returncode == 0
    found = [(key, value) for _, key, value, _ in read(cluster1, topic, 4)]
    assert found == [(b"gone", None), (None, b"a"), (None, b"b\nc"), (None, b"two\nlines\n")]


def test_errors_tell_the_line_and_what_was_written(cluster1: LocalCluster, topic: str) -> None:
    failed = ottla("produce", topic, "-K", ":", bootstrap=cluster1.bootstrap, stdin=b"a:1\nb:2\nwrong\n")
    assert failed.returncode == 2
    assert "line 3: b'wrong' has no key delimiter" in failed.stderr
    assert f"2 records were written to {topic}" in failed.stderr
    small = f"{topic}-small"
    ottla("topic", "create", small, "-c", "max.message.bytes=1000", bootstrap=cluster1.bootstrap)
    failed = ottla("produce", small, bootstrap=cluster1.bootstrap, stdin=b"fits\n" + b"x" * 5000 + b"\nfits too\n")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: line 2: ")
    assert "2 records were written" in failed.stderr
    assert failed.stderr.count("error") + failed.stderr.count("not delivered") == 1


def test_consuming_what_is_not_there_ends_with_4(cluster1: LocalCluster, topic: str) -> None:
    assert ottla("consume", "nowhere-at-all", "-e", bootstrap=cluster1.bootstrap).returncode == 4
    assert ottla("consume", topic, "-p", "7", "-e", bootstrap=cluster1.bootstrap).returncode == 4


def start_consuming(cluster: LocalCluster, topic: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ottla.cli", "consume", topic, "-b", cluster.bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment())


def test_interrupted_consumer_ends_quietly_with_130(cluster1: LocalCluster, filled: str) -> None:
    with start_consuming(cluster1, filled) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline()
        consumer.send_signal(signal.SIGINT)
        _, err = consumer.communicate(timeout=scaled(20))
    assert (consumer.returncode, err) == (130, b"interrupted: read 11 records\n")


def test_consumer_whose_reader_went_away_ends_quietly(cluster1: LocalCluster, filled: str) -> None:
    with start_consuming(cluster1, filled) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        assert consumer.stdout.readline()
        consumer.stdout.close()
        with Producer(bootstrap_servers=cluster1.bootstrap) as producer:
            producer.send(filled, b"nobody reads this").result(timeout=scaled(20))
        assert consumer.stderr.read() == b""
        assert consumer.wait(scaled(20)) == 141


# --- cluster, log --------------------------------------------------------------------------------------------------------


def test_cluster_info_shows_who_is_there(cluster1: LocalCluster, topic: str) -> None:
    value = json.loads(ottla("cluster", "info", "--format", "json", bootstrap=cluster1.bootstrap).stdout)
    assert value["controller"] == 0
    assert value["racks"] == ["rack1"]
    assert value["partitions"] >= 2
    assert [f"{broker['host']}:{broker['port']}" for broker in value["brokers"]] == [cluster1.bootstrap]
    plain = ottla("cluster", "info", bootstrap=cluster1.bootstrap).stdout.splitlines()
    assert plain[1].split("\t")[0] == value["cluster_id"] != ""


def test_log_of_a_live_partition_is_dumped(cluster1: LocalCluster, filled: str) -> None:
    path = cluster1.data_path(0) / f"{filled}-0"
    done = ottla("log", "dump", str(path), "--records", "--format", "json")
    assert done.returncode == 0
    records = [record for line in done.stdout.splitlines() for record in json.loads(line)["records"]]
    assert [record["value"] for record in records] == [str(i) for i in range(10)]


# --- nobody there ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["cluster", "info"], ["produce", "x", "--value", "y"], ["consume", "x", "-e"]]
)
def test_cluster_that_is_not_there_is_told_at_once_with_its_address(arguments: list[str]) -> None:
    [port] = free_ports(1)
    started = time.monotonic()
    failed = ottla(*arguments, "-b", f"127.0.0.1:{port}")
    assert time.monotonic() - started < scaled(5)
    assert failed.returncode == 1
    assert f"127.0.0.1:{port}" in failed.stderr
    assert "hint: start a cluster with `ottla up`" in failed.stderr


def test_broker_that_stays_silent_is_a_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        failed = ottla("topic", "list", "-b", address, "--timeout", "1")
    assert failed.returncode == 3
    assert address in failed.stderr
