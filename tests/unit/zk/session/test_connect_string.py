"""zookeeper.connect as people write it."""

import pytest

from ottla.wire.errors import ConfigError
from ottla.zk.session.connect_string import ConnectString, parse_connect

TWO = (("zoo1", 2181), ("zoo2", 2182))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zoo1:2181,zoo2:2182/kafka", ConnectString(TWO, "/kafka")),
        ("zoo1:2181/kafka/,zoo2:2182/kafka", ConnectString(TWO, "/kafka")),
        ("zoo1:2181/kafka,zoo2:2182", ConnectString(TWO, "/kafka")),
        (" zoo1:2181 , zoo2:2182/a/b/ ", ConnectString(TWO, "/a/b")),
        ("zoo1,zoo2:2182", ConnectString(TWO, "")),
        ("zoo1:2181,zoo2:2182/", ConnectString(TWO, "")),
        ("[::1]:2183,[fe80::1]/x", ConnectString((("::1", 2183), ("fe80::1", 2181)), "/x")),
    ],
)
def test_connect_string_is_understood(text: str, expected: ConnectString) -> None:
    assert parse_connect(text) == expected
    assert parse_connect(str(expected)) == expected


def test_contradicting_chroots_are_refused_and_named() -> None:
    with pytest.raises(ConfigError, match=r"contradicts itself.*'/kafka' after zoo1.*'/other' after zoo2"):
        parse_connect("zoo1:2181/kafka,zoo2:2181/other")
    with pytest.raises(ConfigError, match="contradicts itself"):
        parse_connect("zoo1:2181/,zoo2:2181/kafka")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "zoo1:port",
        "zoo1:0",
        "zoo1:65536",
        "zoo1:-1",
        ":2181",
        "::1",
        "[::1",
        "[::1]x",
        "zoo1//x",
        "zoo1/a/../b",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_connect(text)
