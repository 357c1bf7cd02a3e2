"""Requests that Kafka's clients of today do not send here, by raw frames: old ones, odd ones, and what becomes of them."""

import struct
import time
import uuid
import zlib
from typing import Any

import confluent_kafka
import pytest

from ottla.client import Admin
from ottla.local import LocalCluster
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA, Codec
from ottla.wire.kafka.batches import batches_of
from ottla.wire.records import encode_batch
from tests.compat.conftest import MakeTopic
from tests.support.cluster import wait_until
from tests.support.kafka_clients import WAIT_S
from tests.support.raw_consumer import RawConsumer
from tests.support.raw_kafka import TIMEOUT_S, HungUp, RawKafka

PRODUCE, FETCH, METADATA, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 3, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE_GROUPS, API_VERSIONS = 11, 12, 13, 14, 15, 18
DESCRIBE_CONFIGS, ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS = 32, 34, 35, 44
DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS, LIST_CONFIG_RESOURCES, DESCRIBE_TOPIC_PARTITIONS = 60, 61, 74, 75


def _address(cluster: LocalCluster, broker: int) -> str:
    return cluster.bootstrap.split(",")[broker]


def _leader(cluster: LocalCluster, topic: str) -> tuple[str, bytes]:
    with RawKafka(_address(cluster, 0)) as raw:
        asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        answer = raw.ask(METADATA, 12, {**asked, "include_topic_authorized_operations": False})
    (found,) = answer["topics"]
    return _address(cluster, found["partitions"][0]["leader_id"]), found["topic_id"]


def _coordinator(cluster: LocalCluster, group: str) -> int:
    with RawKafka(_address(cluster, 0)) as raw:
        answer = raw.ask(FIND_COORDINATOR, 0, {"key": group})
    assert answer["error_code"] == 0
    return int(answer["node_id"])


def _alive(raw: RawKafka) -> bool:
    return bool(raw.ask(API_VERSIONS, 0, {})["error_code"] == 0)


# --- Produce -----------------------------------------------------------------------------------------------------------------


def _records(
    topic: str, *partitions: int, acks: int = -1, transactional_id: str | None = None, batch: bytes = b""
) -> dict[str, Any]:
    default = bytes(encode_batch([b"value"], timestamps=int(time.time() * 1000)))
    parts = [{"index": partition, "records": batch or default} for partition in partitions]
    data = [{"name": topic, "partition_data": parts}]
    return {"transactional_id": transactional_id, "acks": acks, "timeout": 5000, "topic_data": data}


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_records_of_a_transaction_are_refused_and_the_connection_stays(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2)
    address, _ = _leader(kafka_cluster, topic)
    with RawKafka(address) as raw:
        answer = raw.ask(PRODUCE, version, _records(topic, 0, 1, transactional_id="of mine"))
        (told,) = answer["responses"]
        assert [(one["index"], one["error_code"]) for one in told["partition_responses"]] == [(0, 53), (1, 53)]
        answer = raw.ask(PRODUCE, version, _records(topic, 0))
        assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 0, "nothing of it was appended"


@pytest.mark.parametrize("value", [b"short", b"long" * 100])
def test_records_of_an_old_format_are_refused_as_such(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, value: bytes
) -> None:
    topic = make_topic()
    body = struct.pack(">bbqii", 1, 0, 1_700_000_000_000, -1, len(value)) + value
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    sent = _records(topic, 0)
    sent["topic_data"][0]["partition_data"][0]["records"] = message
    with RawKafka(_leader(kafka_cluster, topic)[0]) as raw:
        (told,) = raw.ask(PRODUCE, 3, sent)["responses"]
    assert told["partition_responses"][0]["error_code"] == 43


def test_without_acks_a_refused_record_ends_the_connection(kafka_cluster: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    address, _ = _leader(kafka_cluster, topic)
    with RawKafka(address) as raw:
        raw.send(PRODUCE, 7, _records(topic, 0, acks=0))
        assert _alive(raw), "what is taken is not answered"
        raw.send(PRODUCE, 7, _records(topic, 77, acks=0))
        with pytest.raises(HungUp):
            raw.receive(PRODUCE, 7)
    with RawKafka(address) as raw:
        raw.send(PRODUCE, 7, _records(topic, 0, acks=0, transactional_id="of mine"))
        with pytest.raises(HungUp):
            raw.receive(PRODUCE, 7)


@pytest.mark.parametrize("columnar", [False, True])
def test_zstd_is_refused_from_producers_that_do_not_know_it_and_given_to_all_readers(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, columnar: bool
) -> None:
    topic = make_topic(2)
    address, _ = _leader(kafka_cluster, topic)
    magic, now = MAGIC_COLUMNS if columnar else MAGIC_KAFKA, int(time.time() * 1000)
    plain, zstd = (
        bytes(encode_batch([b"value"] * 9, timestamps=now, codec=codec, magic=magic))
        for codec in (Codec.NONE, Codec.ZSTD)
    )

    def produce(version: int, batch: bytes) -> tuple[int, int]:
        (told,) = raw.ask(PRODUCE, version, _records(topic, 0, batch=batch))["responses"]
        (one,) = told["partition_responses"]
        return one["error_code"], one["base_offset"]

    def fetch(version: int, offset: int) -> tuple[int, bytes]:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        part |= {"log_start_offset": -1, "current_leader_epoch": -1}
        asked: dict[str, Any] = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
        asked |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        answer = raw.ask(FETCH, version, {**asked, "topics": [{"topic": topic, "partitions": [part]}]})
        (told,) = answer["responses"][0]["partitions"]
        return told["error_code"], told["records"] or b""

    with RawKafka(address) as raw:
        assert [produce(version, plain) for version in (3, 6, 7)] == [(0, 0), (0, 9), (0, 18)]
        assert [produce(version, zstd) for version in (3, 6, 7)] == [(76, -1), (76, -1), (0, 27)]
        for version in (4, 9, 10):
            error, found = fetch(version, 0)
            assert (error, sum(1 for _ in batches_of(found))) == (0, 4), "as in Kafka where compression.type=producer"
        raw.send(PRODUCE, 3, _records(topic, 0, acks=0, batch=zstd))
        with pytest.raises(HungUp):
            raw.receive(PRODUCE, 3)


# --- the cluster -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "error"), [(1, 0), (2, 114), (7, 115)])
@pytest.mark.parametrize("version", [1, 2])
def test_endpoints_are_brokers(kafka_cluster: LocalCluster, version: int, kind: int, error: int) -> None:
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        asked = {"include_cluster_authorized_operations": False, "endpoint_type": kind, "include_fenced_brokers": False}
        answer = raw.ask(DESCRIBE_CLUSTER, version, asked)
        assert (answer["error_code"], len(answer["brokers"])) == (error, 0 if error else 3)
        assert (answer["error_message"] is None) == (error == 0)
        assert _alive(raw)


@pytest.mark.parametrize("version", [1, 2])
def test_folders_of_replicas_are_asked_for(kafka_cluster: LocalCluster, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    folder = str(kafka_cluster.data_path(0))

    def asked(path: str, name: str) -> dict[str, Any]:
        return {"dirs": [{"path": path, "topics": [{"name": name, "partitions": [0]}]}]}

    with RawKafka(_address(kafka_cluster, 0)) as raw:
        for path, name, error in ((folder, topic, 0), (folder, "not-there", 9), ("/elsewhere", topic, 57)):
            (told,) = raw.ask(ALTER_REPLICA_LOG_DIRS, version, asked(path, name))["results"]
            assert (told["topic_name"], told["partitions"][0]["error_code"]) == (name, error)


def test_what_has_settings_is_listed(kafka_cluster: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        answer = raw.ask(LIST_CONFIG_RESOURCES, 0, {})
        assert (answer["error_code"], answer["config_resources"]) == (0, []), "there are no client metrics"
        topics, everything = (
            {(one["resource_type"], one["resource_name"]) for one in answer["config_resources"]}
            for answer in (raw.ask(LIST_CONFIG_RESOURCES, 1, {"resource_types": types}) for types in ([2], []))
        )
        assert (2, topic) in topics
        assert {kind for kind, _ in topics} == {2}
        assert {(kind, str(broker)) for kind in (4, 8) for broker in range(3)} | {(2, topic)} <= everything
        assert raw.ask(LIST_CONFIG_RESOURCES, 1, {"resource_types": [2, 77]})["error_code"] == 35
        assert _alive(raw)


SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_settings_of_a_group_count_for_its_members(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, name: str
) -> None:
    make_topic()
    coordinator = _coordinator(kafka_cluster, name)

    def alter(operation: int, group: str = name, **values: str) -> int:
        named = {SESSION_TIMEOUT: values.get("session"), HEARTBEAT_INTERVAL: values.get("heartbeat")}
        configs = [{"name": key, "config_operation": operation, "value": value} for key, value in named.items()]
        asked = {
            "resources": [{"resource_type": 32, "resource_name": group, "configs": configs}],
            "validate_only": False,
        }
        with RawKafka(_address(kafka_cluster, (coordinator + 1) % 3)) as raw:
            return int(raw.ask(INCREMENTAL_ALTER_CONFIGS, 1, asked)["responses"][0]["error_code"])

    def described(broker: int) -> list[tuple[str, int, int]]:
        resource = {"resource_type": 32, "resource_name": name, "configuration_keys": [HEARTBEAT_INTERVAL]}
        asked = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
        with RawKafka(_address(kafka_cluster, broker)) as raw:
            ((entry,),) = (one["configs"] for one in raw.ask(DESCRIBE_CONFIGS, 4, asked)["results"])
        return [(entry["value"], entry["config_source"], len(entry["synonyms"]))]

    def interval() -> int:
        with RawConsumer(kafka_cluster, name, f"member-{uuid.uuid4()}") as member:
            joined = member.join()
            member.leave()
            return joined.heartbeat_interval_ms

    assert interval() == 5000
    assert alter(SET, session="50000", heartbeat="7000") == 0
    assert [described(broker) for broker in range(3)] == [[("7000", 8, 2)]] * 3
    assert interval() == 7000
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        listed = raw.ask(LIST_CONFIG_RESOURCES, 1, {"resource_types": [32]})["config_resources"]
    assert {"resource_name": name, "resource_type": 32} in listed
    assert alter(SET, session="7000", heartbeat="7000") == 40
    assert alter(SET, group="", session="50000", heartbeat="7000") == 24
    assert alter(DELETE) == 0
    assert [described(broker) for broker in range(3)] == [[("5000", 5, 1)]] * 3
    assert interval() == 5000


LOGGER = "ottla.broker.api.control"
SET, DELETE, APPEND = 0, 1, 2


def test_log_levels_are_changed_at_run_time(kafka_cluster: LocalCluster, make_topic: MakeTopic, name: str) -> None:
    """As kafka-configs does it with --entity-type broker-loggers."""

    def alter(broker: int, *changes: tuple[str, int, str | None], only_validate: bool = False) -> list[int]:
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
        resources = [{"resource_type": 8, "resource_name": str(broker), "configs": configs}]
        resources.append({"resource_type": 2, "resource_name": topic, "configs": []})
        asked = {"resources": resources, "validate_only": only_validate}
        return [one["error_code"] for one in raw.ask(INCREMENTAL_ALTER_CONFIGS, 1, asked)["responses"]]

    def level(*names: str) -> dict[str, str]:
        resource = {"resource_type": 8, "resource_name": "1", "configuration_keys": list(names) or None}
        asked = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
        (told,) = raw.ask(DESCRIBE_CONFIGS, 4, asked)["results"]
        assert {one["config_source"] for one in told["configs"]} == {6}
        return {one["name"]: one["value"] for one in told["configs"]}

    topic, log = make_topic(), kafka_cluster.log_path(1)
    with RawKafka(_address(kafka_cluster, 1)) as raw:
        assert level("root", LOGGER) == {"root": "INFO", LOGGER: "INFO"}
        assert len(level()) > 20
        assert alter(1, (LOGGER, SET, "DEBUG"), only_validate=True) == [0, 0]
        assert "api=UPDATE_METADATA" not in log.read_text()
        assert alter(1, (LOGGER, SET, "DEBUG")) == [0, 0]
        assert level(LOGGER) == {LOGGER: "DEBUG"}
        with Admin(bootstrap_servers=kafka_cluster.bootstrap) as admin:
            admin.create_topic(f"{name}-heard")
        wait_until(lambda: "api=UPDATE_METADATA" in log.read_text(), TIMEOUT_S)
        assert alter(1, (LOGGER, DELETE, None)) == [0, 0]
        assert level(LOGGER) == {LOGGER: "INFO"}
        assert alter(1, ("no.such", SET, "DEBUG")) == [40, 0]
        assert alter(1, (LOGGER, SET, "LOUD")) == [40, 0]
        assert alter(1, (LOGGER, APPEND, "DEBUG")) == [42, 0]
        assert alter(1, (LOGGER, SET, "ERROR"), ("root", DELETE, None)) == [42, 0], "all or nothing"
        assert alter(0, (LOGGER, SET, "DEBUG")) == [42, 0], "another broker's"
        assert level(LOGGER) == {LOGGER: "INFO"}


CLUSTER_BITS, TOPIC_BITS, GROUP_BITS, NOT_ASKED = 8096, 3576, 3400, -(2**31)
"""What Kafka's brokers answer without an authorizer."""


@pytest.mark.parametrize("asked_for", [True, False])
def test_operations_are_authorized_as_by_kafka_without_an_authorizer(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, name: str, asked_for: bool
) -> None:
    topic = make_topic()
    of_cluster, of_topic, of_group = (
        (CLUSTER_BITS, TOPIC_BITS, GROUP_BITS) if asked_for else (NOT_ASKED, NOT_ASKED, NOT_ASKED)
    )
    names = [{"topic_id": None, "name": one} for one in (topic, f"{topic}-not-there")]
    asked = {"topics": names, "allow_auto_topic_creation": False, "include_topic_authorized_operations": asked_for}
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        for version in (8, 10, 12):
            answer = raw.ask(METADATA, version, {**asked, "include_cluster_authorized_operations": asked_for})
            assert {one["topic_authorized_operations"] for one in answer["topics"] if not one["error_code"]} == {
                of_topic
            }
            assert {one["topic_authorized_operations"] for one in answer["topics"] if one["error_code"]} == {NOT_ASKED}
            assert version > 10 or answer["cluster_authorized_operations"] == of_cluster
        described = {"endpoint_type": 1, "include_fenced_brokers": False}
        answer = raw.ask(DESCRIBE_CLUSTER, 1, {**described, "include_cluster_authorized_operations": asked_for})
        assert answer["cluster_authorized_operations"] == of_cluster
        partitions = {"topics": [{"name": topic}], "response_partition_limit": 9, "cursor": None}
        (told,) = raw.ask(DESCRIBE_TOPIC_PARTITIONS, 0, partitions)["topics"]
        assert told["topic_authorized_operations"] == TOPIC_BITS, "this request has no field to ask for it"
    with RawKafka(_address(kafka_cluster, _coordinator(kafka_cluster, name))) as raw:
        groups = {"groups": [name], "include_authorized_operations": asked_for}
        told = [raw.ask(DESCRIBE_GROUPS, version, groups)["groups"][0] for version in (3, 5, 6)]
        assert [one["authorized_operations"] for one in told] == [of_group, of_group, NOT_ASKED], "the last is an error"


@pytest.mark.parametrize("version", [1, 4, 5])
def test_log_dirs_are_described(kafka_cluster: LocalCluster, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic(2)
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        asked = {"topics": [{"topic": topic, "partitions": [0, 1]}]}
        (folder,) = raw.ask(DESCRIBE_LOG_DIRS, version, asked)["results"]
    assert [(one["name"], len(one["partitions"])) for one in folder["topics"]] == [(topic, 2)]
    assert folder.get("is_cordoned", False) is False


def test_producers_are_described_by_every_replica(kafka_cluster: LocalCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_cluster.bootstrap, "enable.idempotence": True})
    for number in range(3):
        producer.produce(topic, b"value", partition=0)
        assert producer.flush(WAIT_S) == 0, number
    asked = {"topics": [{"name": topic, "partition_indexes": [0, 1, 9]}]}
    for broker in range(3):  # acks=all: every replica has it
        with RawKafka(_address(kafka_cluster, broker)) as raw:
            (told,) = raw.ask(DESCRIBE_PRODUCERS, 0, asked)["topics"]
        first, second, missing = told["partitions"]
        (found,) = first["active_producers"]
        assert (found["producer_epoch"], found["last_sequence"]) == (0, 2)
        assert abs(found["last_timestamp"] - time.time() * 1000) < 3600_000
        assert (found["coordinator_epoch"], found["current_txn_start_offset"]) == (-1, -1)
        assert (second["error_code"], second["active_producers"]) == (0, [])
        assert (missing["error_code"], missing["active_producers"]) == (3, [])


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_who_looks_for_the_coordinator_of_a_transaction_is_told_why_there_is_none(
    kafka_cluster: LocalCluster, version: int
) -> None:
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        told = raw.ask(FIND_COORDINATOR, version, {"key": "mine", "key_type": 1, "coordinator_keys": ["mine"]})
        (told,) = told.get("coordinators", [told])
        assert (told["error_code"], told["node_id"]) == (31, -1)
        assert "there are no transactions here" in told["error_message"]
        assert "mine" in told["error_message"]
        if version == 6:
            told = raw.ask(FIND_COORDINATOR, version, {"key_type": 2, "coordinator_keys": ["g:t:0"]})
            assert told["coordinators"][0]["error_code"] == 42, "share groups"


@pytest.mark.parametrize("version", range(1, 5))
def test_settings_are_described_with_types_documentation_and_the_brokers_names(
    kafka_cluster: LocalCluster, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(cleanup_policy="delete")
    with RawKafka(_address(kafka_cluster, 0)) as raw:
        resources = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name, keys in ((2, topic, ["cleanup.policy"]), (4, "0", ["log.retention.ms"]))
        ]
        asked = {"resources": resources, "include_synonyms": True, "include_documentation": True}
        of_topic, of_broker = (one["configs"][0] for one in raw.ask(DESCRIBE_CONFIGS, version, asked)["results"])
        brief = raw.ask(DESCRIBE_CONFIGS, version, {**asked, "include_documentation": False})["results"][0]["configs"][
            0
        ]
    assert [one["name"] for one in of_topic["synonyms"]] == ["cleanup.policy", "log.cleanup.policy"]
    if version >= 3:
        assert (of_topic["config_type"], of_broker["config_type"]) == (7, 5)
        assert of_topic["documentation"]
        assert of_broker["documentation"]
        assert brief["documentation"] is None


# --- groups ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 5, 7])
def test_offsets_are_refused_by_who_does_not_coordinate(kafka_cluster: LocalCluster, name: str, version: int) -> None:
    """Version 1 has no error of its own: each partition bears it."""
    other = (_coordinator(kafka_cluster, name) + 1) % 3
    asked = {"group_id": name, "topics": [{"name": "t", "partition_indexes": [0, 3]}], "require_stable": False}
    with RawKafka(_address(kafka_cluster, other)) as raw:
        answer = raw.ask(OFFSET_FETCH, version, asked)
    parts = [(one["partition_index"], one["error_code"]) for topic in answer["topics"] for one in topic["partitions"]]
    if version == 1:
        assert parts == [(0, 16), (3, 16)]
    else:
        assert answer["error_code"] == 16


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead_and_since_version_6_an_error(
    kafka_cluster: LocalCluster, name: str, version: int
) -> None:
    coordinator = _address(kafka_cluster, _coordinator(kafka_cluster, name))
    with RawKafka(coordinator) as raw:
        asked = {"groups": [name], "include_authorized_operations": False}
        (group,) = raw.ask(DESCRIBE_GROUPS, version, asked)["groups"]
    assert (group["group_id"], group["members"]) == (name, [])
    if version >= 6:
        assert group["error_code"] == 69
    else:
        assert (group["error_code"], group["group_state"]) == (0, "Dead")


@pytest.mark.parametrize("version", range(4))
def test_old_members_join_at_once(kafka_cluster: LocalCluster, name: str, version: int) -> None:
    """Before version 4 nobody is sent back for a member id."""
    with RawKafka(_address(kafka_cluster, _coordinator(kafka_cluster, name))) as raw:
        asked = {"group_id": name, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": ""}
        protocols = [{"name": "range", "metadata": b"meta"}]
        joined = raw.ask(JOIN, version, {**asked, "protocol_type": "consumer", "protocols": protocols})
        assert (joined["error_code"], joined["generation_id"], joined["protocol_name"]) == (0, 1, "range")
        member = joined["member_id"]
        assert joined["leader"] == member != ""
        assert [(one["member_id"], one["metadata"]) for one in joined["members"]] == [(member, b"meta")]
        me = {"group_id": name, "generation_id": 1, "member_id": member}
        shares = [{"member_id": member, "assignment": b"all of it"}]
        synced = raw.ask(SYNC, min(version, 2), {**me, "assignments": shares})
        assert (synced["error_code"], synced["assignment"]) == (0, b"all of it")
        assert raw.ask(HEARTBEAT, min(version, 2), me)["error_code"] == 0
        assert raw.ask(HEARTBEAT, 0, {**me, "generation_id": 7})["error_code"] == 22
        (group,) = raw.ask(DESCRIBE_GROUPS, version, {"groups": [name], "include_authorized_operations": False})[
            "groups"
        ]
        assert (group["group_state"], [one["member_assignment"] for one in group["members"]]) == (
            "Stable",
            [b"all of it"],
        )
        assert raw.ask(LEAVE, min(version, 2), {"group_id": name, "member_id": member})["error_code"] == 0
        (group,) = raw.ask(DESCRIBE_GROUPS, version, {"groups": [name], "include_authorized_operations": False})[
            "groups"
        ]
        assert (group["group_state"], group["members"]) == ("Empty", [])
