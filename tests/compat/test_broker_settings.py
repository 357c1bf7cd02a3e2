"""Settings of brokers that are changed while they run: by confluent-kafka, kafka-python and raw frames; kept over restarts."""

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.wire.admin import ConfigSource
from ottla.wire.errors import InvalidConfig, NotEnoughReplicas
from tests.support.cluster import wait_until
from tests.support.kafka_clients import WAIT_S, Confluent, Sent
from tests.support.raw_kafka import RawKafka
from tests.support.znodes import read_znode

ALL = ""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One of its own: what is set here would be in others' way."""
    with LocalCluster(brokers=3) as running:
        yield running


@pytest.fixture(autouse=True)
def as_it_was(cluster: LocalCluster) -> Iterator[None]:
    yield
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for broker in (None, 0, 1, 2):
            told = [one.key for one in _dynamic(admin, broker)]
            if told:
                admin.alter_broker_config(broker, unset=told)


def _dynamic(admin: Admin, broker: int | None) -> list[Any]:
    own = ConfigSource.DYNAMIC_DEFAULT_BROKER if broker is None else ConfigSource.DYNAMIC_BROKER
    return [one for one in admin.describe_broker_config(broker) if one.source == own]


def _alter(cluster: LocalCluster, name: str, **settings: str | None) -> None:
    """By confluent-kafka, which asks the broker itself, or the controller for all of them."""
    changes = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE,
        )
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, name, incremental_configs=changes)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in client.incremental_alter_configs([resource], request_timeout=WAIT_S).values():
        future.result(WAIT_S)


def _described(cluster: LocalCluster, broker: str, key: str) -> Any:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (future,) = client.describe_configs([ConfigResource(ResourceType.BROKER, broker)], request_timeout=WAIT_S).values()
    return future.result(WAIT_S)[key]


@pytest.mark.parametrize("broker", ["0", "1", "2"])
def test_confluent_changes_a_broker_wherever_the_controller_is(cluster: LocalCluster, broker: str) -> None:
    _alter(cluster, broker, log_retention_ms="123456")
    found = _described(cluster, broker, "log.retention.ms")
    assert (found.value, found.source, found.is_read_only, found.is_default) == ("123456", 2, False, False)
    assert _described(cluster, broker, "log.dirs").is_read_only
    others = {"0", "1", "2"} - {broker}
    assert {_described(cluster, one, "log.retention.ms").source for one in others} == {5}
    with pytest.raises(confluent_kafka.KafkaException, match="is read when a broker starts"):
        _alter(cluster, broker, log_dirs="/elsewhere")
    with pytest.raises(confluent_kafka.KafkaException, match="must be an integer"):
        _alter(cluster, broker, log_retention_ms="soon")


def test_it_stands_in_zookeeper_as_kafka_writes_it_and_outlives_restarts(cluster: LocalCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_broker_config(None, {"num.partitions": 4, "log.roll.ms": 7000})
        admin.alter_broker_config(1, {"log.roll.ms": 9000})
        for name, config in (
            ("<default>", {"num.partitions": "4", "log.roll.ms": "7000"}),
            ("1", {"log.roll.ms": "9000"}),
        ):
            written = json.loads(read_znode(cluster, f"/config/brokers/{name}").data)
            assert written == {"version": 1, "config": config}

        def in_force() -> list[tuple[str | None, str | None]]:
            found = [{one.key: one.value for one in admin.describe_broker_config(broker)} for broker in range(3)]
            return [(one["num.partitions"], one["log.roll.ms"]) for one in found]

        expected = [("4", "7000"), ("4", "9000"), ("4", "7000")]
        assert in_force() == expected
        for broker in range(3):
            cluster.kill(broker)
        for broker in range(3):
            cluster.start(broker)
        wait_until(lambda: all(cluster.is_ready(broker) for broker in range(3)), WAIT_S)
        assert in_force() == expected
        admin.alter_broker_config(1, unset=["log.roll.ms"])
        assert in_force() == [("4", "7000")] * 3


def test_new_settings_count_at_once(cluster: LocalCluster, name: str) -> None:
    """Of topics that say nothing themselves; what is made from now on; and what is acknowledged."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(f"{name}-small", replication_factor=1)
        admin.create_topic(f"{name}-own", replication_factor=1, config={"max.message.bytes": "50000"})
        admin.alter_broker_config(None, {"message.max.bytes": 10_000, "num.partitions": 3, "min.insync.replicas": 2})
        with pytest.raises(confluent_kafka.KafkaException, match="MSG_SIZE_TOO_LARGE"):
            Confluent().write(cluster.bootstrap, f"{name}-small", [Sent(b"x" * 20_000)], acks="1")
        Confluent().write(cluster.bootstrap, f"{name}-own", [Sent(b"x" * 20_000)], acks="1")
        Confluent().write(cluster.bootstrap, f"{name}-made", [Sent(b"x")], acks="1")
        assert len(admin.describe_topic(f"{name}-made").partitions) == 3
        with Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=1500) as producer:
            with pytest.raises(NotEnoughReplicas):
                producer.send(f"{name}-small", b"x").result(WAIT_S)
            admin.alter_broker_config(None, unset=["min.insync.replicas"])
            producer.send(f"{name}-small", b"x").result(WAIT_S)
        (entry,) = [
            one for one in admin.describe_configs([f"{name}-small"])[f"{name}-small"] if one.key == "max.message.bytes"
        ]
        assert (entry.value, entry.source) == ("10000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
        admin.alter_broker_config(None, {"auto.create.topics.enable": False})
        producer_of_nothing = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 1500}
        )
        producer_of_nothing.produce(f"{name}-not-made", b"x")
        producer_of_nothing.flush(WAIT_S)
        assert f"{name}-not-made" not in admin.list_topics()


def test_what_is_only_tried_changes_nothing(cluster: LocalCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_broker_config(2, {"group.max.size": 5}, validate_only=True)
        with pytest.raises(InvalidConfig):
            admin.alter_broker_config(2, {"min.insync.replicas": 2}, validate_only=True)
        assert _dynamic(admin, 2) == []


@pytest.mark.parametrize("broker", [0, 1, 2])
def test_raw_alter_configs_replaces_all_and_any_broker_takes_it(cluster: LocalCluster, broker: int) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_broker_config(None, {"group.max.size": 50})
        configs = [{"name": "num.partitions", "value": "6"}]
        resources = [{"resource_type": 4, "resource_name": ALL, "configs": configs}]
        with RawKafka(cluster.bootstrap.split(",")[broker]) as raw:
            answer = raw.ask(33, 2, {"resources": resources, "validate_only": False})
            assert [one["error_code"] for one in answer["responses"]] == [0]
            wanted = [{"resource_type": 4, "resource_name": ALL, "configuration_keys": None}]
            asked = {"resources": wanted, "include_synonyms": False, "include_documentation": False}
            (result,) = raw.ask(32, 4, asked)["results"]
            wanted[0] |= {"resource_name": str(broker), "configuration_keys": ["num.partitions"]}
            (own,) = raw.ask(32, 4, {**asked, "include_synonyms": True})["results"]
        assert [(one["value"], one["source"]) for one in own["configs"][0]["synonyms"]] == [("6", 3), ("1", 5)]
        assert [(one["name"], one["value"], one["config_source"], one["synonyms"]) for one in result["configs"]] == [
            ("num.partitions", "6", 3, [])
        ]


def test_groups_that_are_there_have_the_new_limit(cluster: LocalCluster, name: str) -> None:
    def join(raw: RawKafka) -> int:
        me = {"group_id": name, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": ""}
        joined = raw.ask(11, 1, {**me, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})
        return int(joined["error_code"])

    with RawKafka(cluster.bootstrap.split(",")[0]) as raw:
        coordinator = raw.ask(10, 0, {"key": name})["node_id"]
    address = cluster.bootstrap.split(",")[coordinator]
    with RawKafka(address) as first, RawKafka(address) as second, Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert join(first) == 0
        admin.alter_broker_config(None, {"group.max.size": 1})
        assert join(second) == 81, "GROUP_MAX_SIZE_REACHED"
