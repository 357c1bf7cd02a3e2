"""kcat, the command: what it writes, reads and lists."""

import json

import pytest

from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import KCAT, kcat

pytestmark = pytest.mark.skipif(KCAT is None, reason="KCAT IS NOT INSTALLED: apt-get install kcat")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_it_wrote(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    lines = "".join(f"key{i}:value{i}\n" for i in range(500))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, "-X", "linger.ms=5", given=lines.encode())
    assert kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-K", ":").decode() == lines
    assert kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "-3", "-f", "%o ") == b"497 498 499 "


def test_kcat_lists_the_cluster(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    told = json.loads(kcat(bootstrap, "-L", "-J"))
    assert len(told["brokers"]) == 3
    found = next(one for one in told["topics"] if one["topic"] == topic)
    assert [len(one["replicas"]) for one in found["partitions"]] == [3, 3, 3]


def test_kcat_in_a_group(bootstrap: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic()
    kcat(bootstrap, "-P", "-t", topic, given=b"one\ntwo\n")
    arguments = ["-G", name, "-q", "-e", "-X", "auto.offset.reset=earliest", topic]
    assert kcat(bootstrap, *arguments) == b"one\ntwo\n"
    kcat(bootstrap, "-P", "-t", topic, given=b"three\n")
    assert kcat(bootstrap, *arguments) == b"three\n"
