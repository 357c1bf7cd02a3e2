"""Listeners: what Kafka's settings mean, and which combinations are refused."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import parse_listeners
from ottla.wire.errors import ConfigError
from ottla.wire.messages import ListenerAddress

TWO = "INSIDE://0.0.0.0:9192,OUTSIDE://0.0.0.0:9092"
TOLD = "INSIDE://broker0:9192,OUTSIDE://127.0.0.1:19092"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig(broker_id=1, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listeners", "advertised", "ports", "found"),
    [
        ("PLAINTEXT://10.0.0.1:9092", "", {"PLAINTEXT": 9092}, ["PLAINTEXT://10.0.0.1:9092"]),
        ("10.0.0.1:9092", "", {"PLAINTEXT": 9092}, ["PLAINTEXT://10.0.0.1:9092"]),
        ("PLAINTEXT://:0", "PLAINTEXT://127.0.0.1:0", {"PLAINTEXT": 31234}, ["PLAINTEXT://127.0.0.1:31234"]),
        ("PLAINTEXT://[::1]:9092", "", {"PLAINTEXT": 9092}, ["PLAINTEXT://[::1]:9092"]),
        ("PLAINTEXT://0.0.0.0:0", "PLAINTEXT://h:0", {"PLAINTEXT": 31234}, ["PLAINTEXT://h:31234"]),
        ("A://127.0.0.1:0,B://127.0.0.1:0", "", {"A": 1, "B": 2}, ["A://127.0.0.1:1", "B://127.0.0.1:2"]),
        (TWO, TOLD, {"INSIDE": 9192, "OUTSIDE": 9092}, TOLD.split(",")),
        (TWO.lower(), ",".join(reversed(TOLD.split(","))), {"INSIDE": 9192, "OUTSIDE": 9092}, TOLD.split(",")),
    ],
)
def test_others_find_the_broker_where_it_says(
    listeners: str, advertised: str, ports: dict[str, int], found: list[str]
) -> None:
    parsed = config(listeners=listeners, advertised_listeners=advertised).all_listeners()
    assert [str(address) for address in parsed.advertised(ports)] == found


def test_brokers_use_the_listener_that_is_named_else_the_first() -> None:
    assert parse_listeners(TWO, TOLD, "", "").inter_broker == "INSIDE"
    assert parse_listeners(TWO, TOLD, "OUTSIDE", "").inter_broker == "OUTSIDE"
    assert parse_listeners(TWO, TOLD, "outside", "").inter_broker == "OUTSIDE"


def test_every_listener_is_bound_where_it_says() -> None:
    assert parse_listeners(TWO, TOLD, "", "").bound == (
        ListenerAddress("INSIDE", "0.0.0.0", 9192),
        ListenerAddress("OUTSIDE", "0.0.0.0", 9092),
    )


@pytest.mark.parametrize(
    "protocols", ["INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "inside:plaintext, OUTSIDE:PLAINTEXT,X:SSL"]
)
def test_map_to_plaintext_is_taken(protocols: str) -> None:
    assert parse_listeners(TWO, TOLD, "", protocols).inter_broker == "INSIDE"
    assert parse_listeners("SSL://h:1", "", "", "SSL:PLAINTEXT").inter_broker == "SSL"
    assert parse_listeners("PLAINTEXT://h:1", "", "", "INSIDE:PLAINTEXT").inter_broker == "PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"listeners": ""}, "listeners=''"),
        ({"listeners": "nonsense"}, "listeners='nonsense'"),
        ({"listeners": "A://h:70000"}, "A://h:70000"),
        ({"listeners": "A://h:1,"}, "listeners=''"),
        ({"listeners": "A://h:1,A://h:2"}, "two listeners called A"),
        ({"listeners": "A://h:1,B://i:1"}, "port 1 twice"),
        ({"listeners": TWO, "advertised_listeners": "INSIDE://b:1"}, "give the same names"),
        ({"listeners": TWO, "advertised_listeners": TOLD + ",MORE://b:1"}, "give the same names"),
        ({"listeners": TWO, "advertised_listeners": "INSIDE://b:1,ELSE://b:2"}, "INSIDE, ELSE"),
        ({"listeners": "A://h:1", "advertised_listeners": "A://0.0.0.0:1"}, "A://0.0.0.0:1 is not allowed"),
        ({"listeners": "A://h:1", "advertised_listeners": "A://[::]:1"}, "nobody can connect"),
        ({"listeners": "A://h:1", "advertised_listeners": "A://:1"}, "nobody can connect"),
        ({"listeners": "PLAINTEXT://:9092"}, "listens everywhere"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "listens everywhere"),
        ({"listeners": "A://127.0.0.1:1,B://[::]:2"}, "listeners=B://[::]:2 listens everywhere"),
        ({"listeners": TWO, "inter_broker_listener_name": "BETWEEN"}, "INSIDE, OUTSIDE"),
        ({"listeners": "SSL://h:1"}, "asks for SSL"),
        ({"listeners": "SASL_SSL://h:1"}, "asks for SASL_SSL"),
        ({"listeners": TWO, "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:SSL"}, "OUTSIDE asks for SSL"),
        ({"listeners": TWO, "listener_security_protocol_map": "INSIDE:PLAINTEXT"}, "nothing about listener OUTSIDE"),
        ({"listeners": TWO, "listener_security_protocol_map": "INSIDE"}, "NAME:PLAINTEXT"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_with_its_name(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**settings)
    assert says in str(refused.value)
