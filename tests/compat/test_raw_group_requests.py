"""What Kafka answers about groups that do not exist, and about offsets that are none, by raw frames."""

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.local import LocalCluster
from tests.compat.conftest import MakeTopic
from tests.support.kafka_clients import WAIT_S
from tests.support.raw_kafka import RawKafka

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT = 15, 16, 47, 68
UNKNOWN_TOPIC, ILLEGAL_GENERATION, INVALID_GROUP_ID, UNKNOWN_MEMBER, INVALID_SESSION_TIMEOUT = 3, 22, 24, 25, 26
NON_EMPTY_GROUP, GROUP_NOT_FOUND = 68, 69


@pytest.fixture
def raw(kafka_cluster: LocalCluster, name: str) -> Iterator[RawKafka]:
    """A connection to the coordinator of the group ``name``."""
    brokers = kafka_cluster.bootstrap.split(",")
    with RawKafka(brokers[0]) as any_broker:
        coordinator = any_broker.ask(FIND_COORDINATOR, 0, {"key": name})["node_id"]
    with RawKafka(brokers[coordinator]) as connection:
        yield connection


def _groups(raw: RawKafka, states: list[str] | None = None) -> set[str]:
    answer = raw.ask(LIST_GROUPS, 4, {"states_filter": states or []})
    assert answer["error_code"] == 0
    return {one["group_id"] for one in answer["groups"]}


def _commit(raw: RawKafka, group: str, topic: str, offsets: dict[int, int], generation: int = -1) -> list[int]:
    parts = [
        {"partition_index": number, "committed_offset": offset, "committed_metadata": ""}
        for number, offset in offsets.items()
    ]
    member = {"generation_id_or_member_epoch": generation, "member_id": "m" if generation >= 0 else ""}
    topics = [{"name": topic, "partitions": parts}]
    (told,) = raw.ask(OFFSET_COMMIT, 7, {"group_id": group, **member, "group_instance_id": None, "topics": topics})[
        "topics"
    ]
    return [one["error_code"] for one in told["partitions"]]


def _committed(raw: RawKafka, group: str, topic: str, partitions: list[int]) -> list[int]:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": partitions}]}
    (told,) = raw.ask(OFFSET_FETCH, 5, asked)["topics"]
    return [one["committed_offset"] for one in told["partitions"]]


def _delete_offsets(raw: RawKafka, group: str, topic: str, *partitions: int) -> tuple[int, list[int]]:
    parts = [{"partition_index": number} for number in partitions]
    answer = raw.ask(OFFSET_DELETE, 0, {"group_id": group, "topics": [{"name": topic, "partitions": parts}]})
    codes = [one["error_code"] for told in answer["topics"] for one in told["partitions"]]
    return answer["error_code"], codes


def _join(raw: RawKafka, group: str, session_ms: int, protocol_type: str = "consumer") -> int:
    """The error of a join in version 3, which nobody is sent back from for a member id."""
    me = {"group_id": group, "member_id": "", "protocol_type": protocol_type}
    times = {"session_timeout": session_ms, "rebalance_timeout": 10_000}
    return int(raw.ask(JOIN, 3, {**me, **times, "protocols": [{"name": "range", "metadata": b""}]})["error_code"])


# --- offsets that are none -------------------------------------------------------------------------------------------------


def test_a_commit_of_minus_one_or_two_is_stored(
    raw: RawKafka, bootstrap: str, make_topic: MakeTopic, name: str
) -> None:
    """kafkajs commits -2 when its offset is out of range, and goes on reading from there."""
    topic = make_topic(3)
    assert _commit(raw, name, topic, {0: -1, 1: -2, 2: 5}) == [0, 0, 0]
    assert _committed(raw, name, topic, [0, 1, 2]) == [-1, -2, 5]
    asked = [ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 1)])]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets(asked).values()
    assert [one.offset for one in future.result(WAIT_S).topic_partitions] == [-2]


# --- groups that do not exist --------------------------------------------------------------------------------------------


def test_a_member_of_a_group_that_does_not_exist_is_unknown_and_the_group_is_not_made(raw: RawKafka, name: str) -> None:
    me = {"group_id": name, "member_id": "one that slept", "generation_id": 3}
    assert raw.ask(HEARTBEAT, 3, {**me, "group_instance_id": None})["error_code"] == UNKNOWN_MEMBER
    assert raw.ask(LEAVE, 2, {"group_id": name, "member_id": "one"})["error_code"] == UNKNOWN_MEMBER
    synced = raw.ask(SYNC, 3, {**me, "group_instance_id": None, "assignments": []})
    assert synced["error_code"] == UNKNOWN_MEMBER
    times = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    kind = {"group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    assert raw.ask(JOIN, 5, {**me, **times, **kind})["error_code"] == UNKNOWN_MEMBER
    beat = {"group_id": name, "member_id": "one that slept", "member_epoch": 3, "rebalance_timeout": -1}
    unchanged = dict.fromkeys(
        ["instance_id", "rack_id", "subscribed_topic_names", "server_assignor", "topic_partitions"], None
    )
    assert raw.ask(CONSUMER_GROUP_HEARTBEAT, 0, {**beat, **unchanged})["error_code"] == UNKNOWN_MEMBER
    assert name not in _groups(raw)


def test_a_commit_of_a_generation_of_no_group_is_refused_and_the_group_is_not_made(
    raw: RawKafka, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    assert _commit(raw, name, topic, {0: 7}, generation=3) == [ILLEGAL_GENERATION]
    assert _commit(raw, name, topic, {5: 7}) == [UNKNOWN_TOPIC]
    assert name not in _groups(raw)
    assert _commit(raw, name, topic, {0: 7, 5: 7}) == [0, UNKNOWN_TOPIC]
    assert name in _groups(raw)


def test_offsets_of_unknown_partitions_cannot_be_deleted(raw: RawKafka, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(2)
    assert _delete_offsets(raw, name, topic, 0) == (GROUP_NOT_FOUND, [])
    _commit(raw, name, topic, {0: 7})
    assert _delete_offsets(raw, name, "no-such-topic", 0) == (0, [UNKNOWN_TOPIC])
    assert _delete_offsets(raw, name, topic, 5, 1) == (0, [UNKNOWN_TOPIC, 0])
    assert _committed(raw, name, topic, [0]) == [7]


def test_a_group_goes_with_its_last_offset(raw: RawKafka, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(2)
    _commit(raw, name, topic, {0: 7, 1: 8})
    assert _delete_offsets(raw, name, topic, 0) == (0, [0])
    assert name in _groups(raw)
    assert _delete_offsets(raw, name, topic, 1) == (0, [0])
    assert name not in _groups(raw)
    assert _commit(raw, name, topic, {0: 9}) == [0]
    assert _committed(raw, name, topic, [0, 1]) == [9, -1]


def test_offsets_of_a_group_whose_members_are_no_consumers_stay(
    raw: RawKafka, make_topic: MakeTopic, name: str
) -> None:
    """Which topics they read is not known."""
    topic = make_topic()
    _commit(raw, name, topic, {0: 7})
    assert _join(raw, name, 10_000, protocol_type="connect") == 0
    assert _delete_offsets(raw, name, topic, 0) == (NON_EMPTY_GROUP, [])
    assert _committed(raw, name, topic, [0]) == [7]


# --- joining -----------------------------------------------------------------------------------------------------------------


def test_a_join_names_a_group_and_a_session_timeout_that_is_not_too_short(raw: RawKafka, name: str) -> None:
    assert _join(raw, "", 10_000) == INVALID_GROUP_ID
    assert _join(raw, "", 1) == INVALID_GROUP_ID
    assert _join(raw, name, 5_999) == INVALID_SESSION_TIMEOUT
    assert name not in _groups(raw)
    assert _join(raw, name, 6_000) == 0


# --- looking after groups --------------------------------------------------------------------------------------------------


def test_states_of_groups_are_found_however_they_are_spelt(raw: RawKafka, make_topic: MakeTopic, name: str) -> None:
    assert _commit(raw, name, make_topic(), {0: 7}) == [0]
    for state in ("Empty", "empty", "EMPTY"):
        assert name in _groups(raw, ["Stable", state]), state
    assert name not in _groups(raw, ["stable", "no such state"])


def test_the_host_of_a_member_is_written_as_java_writes_it(raw: RawKafka, name: str) -> None:
    assert _join(raw, name, 10_000) == 0
    asked = {"groups": [name], "include_authorized_operations": False}
    (group,) = raw.ask(DESCRIBE_GROUPS, 5, asked)["groups"]
    assert [one["client_host"] for one in group["members"]] == ["/127.0.0.1"]
