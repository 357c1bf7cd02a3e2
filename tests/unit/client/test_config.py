"""Kafka's names as keyword arguments, with dots or without; what is wrong is said at once."""

import pytest

from ottla.client.config import (
    MAX_REQUEST_SIZE_MAX,
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    build,
    parse_addresses,
)
from ottla.wire.batch import Codec
from ottla.wire.errors import ConfigError
from ottla.wire.framing import FRAME_MAX
from ottla.wire.native import REQUEST_HEAD_MAX


def test_dots_underscores_and_text_numbers_mean_the_same():
    dotted = build(ProducerConfig, {"bootstrap.servers": "h:1", "linger.ms": "5", "batch.size": "100", "acks": "1"})
    plain = build(ProducerConfig, {"bootstrap_servers": ["h:1"], "linger_ms": 5, "batch_size": 100, "acks": 1})
    assert dotted == plain


@pytest.mark.parametrize(("given", "near"), [("linger", "linger_ms"), ("bootstrap.server", "bootstrap_servers")])
def test_unknown_option_is_refused_with_the_nearest_name(given, near):
    with pytest.raises(ConfigError, match=f"did you mean {near}"):
        build(ProducerConfig, {given: 1})


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("retries", "delivery_timeout_ms"),
        ("transactional.id", "no transactions"),
        ("security_protocol", "no TLS"),
        ("ssl.ca.location", "no TLS"),
        ("sasl_mechanism", "no SASL"),
    ],
)
def test_what_only_kafkas_clients_have_is_refused_with_what_to_do(given, remedy):
    with pytest.raises(ConfigError, match=remedy) as caught:
        build(ProducerConfig, {given: "1"})
    assert "known are" not in str(caught.value)


def test_option_of_another_client_is_refused():
    with pytest.raises(ConfigError, match="linger_ms"):
        build(AdminConfig, {"linger_ms": 1})


@pytest.mark.parametrize(("acks", "meant"), [("all", -1), (-1, -1), ("-1", -1), (1, 1), ("1", 1), (0, 0), ("0", 0)])
def test_acks_are_understood_in_all_spellings(acks, meant):
    assert build(ProducerConfig, {"acks": acks}).required_acks == meant


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": "leader"},
        {"compression_type": "brotli"},
        {"linger_ms": -1},
        {"linger_ms": "soon"},
        {"batch_size": 0},
        {"buffer_memory": 0},
        {"delivery_timeout_ms": 0},
        {"max_block_ms": -5},
        {"max_in_flight_requests_per_connection": 0},
        {"partitioner": "random"},
        {"request_timeout_ms": None},
        {"retry_backoff_max_ms": 0},
        {"bootstrap_servers": ""},
        {"bootstrap_servers": "host:port"},
        {"bootstrap_servers": "host:70000"},
    ],
)
def test_producer_option_that_makes_no_sense_is_refused_by_name(options):
    with pytest.raises(ConfigError) as caught:
        build(ProducerConfig, options)
    [name] = options
    assert name.split("_")[0] in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"auto_offset_reset": "smallest"},
        {"max_poll_records": 0},
        {"fetch_max_wait_ms": -1},
        {"fetch_min_bytes": -1},
        {"fetch_buffer_bytes": 0},
        {"consumer_timeout_ms": 0},
    ],
)
def test_consumer_option_that_makes_no_sense_is_refused_by_name(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        build(ConsumerConfig, options)


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression_types_are_kafkas(name):
    assert build(ProducerConfig, {"compression.type": name}).codec is Codec[name.upper()]


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ([("a", 1)], [("a", 1)]),
        ("[::1]:5", [("::1", 5)]),
        ("[::1]", [("::1", 9092)]),
        (" a:1 , ", [("a", 1)]),
    ],
)
def test_addresses_are_understood_in_all_shapes(servers, addresses):
    assert parse_addresses(servers) == addresses


def test_request_that_does_not_fit_into_a_frame_is_refused_before_anything_is_sent():
    with pytest.raises(ConfigError, match=f"max_request_size=.*at most {MAX_REQUEST_SIZE_MAX}"):
        ProducerConfig(max_request_size=MAX_REQUEST_SIZE_MAX + 1)
    assert MAX_REQUEST_SIZE_MAX + REQUEST_HEAD_MAX < FRAME_MAX


@pytest.mark.parametrize("linger_ms", [1000, 1001])
def test_linger_that_leaves_no_time_for_the_delivery_is_refused_and_both_are_named(linger_ms):
    with pytest.raises(ConfigError, match=f"linger_ms={linger_ms}.*delivery_timeout_ms=1000"):
        ProducerConfig(linger_ms=linger_ms, delivery_timeout_ms=1000)
    assert ProducerConfig(linger_ms=999, delivery_timeout_ms=1000).linger_ms == 999


@pytest.mark.parametrize(("given", "meant"), [(True, True), ("true", True), ("False", False), (" true ", True)])
def test_booleans_may_come_as_text(given, meant):
    assert build(ConsumerConfig, {"check.crcs": given}).check_crcs is meant
    assert build(ProducerConfig, {"enable.idempotence": given}).enable_idempotence is meant


@pytest.mark.parametrize("given", ["no", "1", 0, "", None])
def test_what_is_neither_true_nor_false_is_refused(given):
    with pytest.raises(ConfigError, match="give True or False"):
        build(ConsumerConfig, {"check_crcs": given})


def test_addresses_as_brokers_spell_them_are_understood():
    assert parse_addresses("PLAINTEXT://a:1,plaintext://b") == [("a", 1), ("b", 9092)]
    assert parse_addresses([("::1", 5), ("c", 6)]) == [("::1", 5), ("c", 6)]


@pytest.mark.parametrize(
    ("given", "hint"),
    [(9092, "127.0.0.1:9092"), ("9092", "127.0.0.1:9092"), ("SSL://a:1", "a:1"), ([9092], "text"), (None, "text")],
)
def test_what_is_no_address_is_refused_with_a_hint(given, hint):
    with pytest.raises(ConfigError) as refused:
        parse_addresses(given)
    assert hint in (refused.value.hint or "")
