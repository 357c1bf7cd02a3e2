"""What operators ask for in lists: a result for each, and one that fails costs nothing. And why things happen, by id."""

import re
from collections.abc import Iterator

import pytest

from ottla.client import Admin, NewTopic, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.admin import (
    ConfigSource,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    TopicResult,
    TopicToDelete,
)
from ottla.wire.admin import NewTopic as WireTopic
from ottla.wire.errors import (
    ConfigError,
    ElectionNotNeeded,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    OttlaError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tests.support.broker_requests import WAIT_S, address
from tests.support.cluster import wait_until
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.cluster


def kinds(outcomes: dict[str, OttlaError | None]) -> dict[str, type[OttlaError] | None]:
    return {name: type(error) if error is not None else None for name, error in outcomes.items()}


def codes(results: list[TopicResult]) -> list[int]:
    return [result.error_code for result in results]


@pytest.fixture
def controller(cluster: LocalCluster, admin: Admin) -> Iterator[RawClient]:
    with RawClient(address(cluster, admin.describe_cluster().controller)) as client:
        yield client


def test_topics_are_created_and_deleted_in_lists_with_a_result_each(admin: Admin, name: str) -> None:
    created = admin.create_topics(
        [
            NewTopic(f"{name}-a", 3),
            NewTopic(f"{name}-b", replication_factor=9),
            NewTopic(f"{name}-c", config={"x": "y"}),
        ]
    )
    assert kinds(created) == {f"{name}-a": None, f"{name}-b": InvalidReplicationFactor, f"{name}-c": InvalidConfig}
    assert [topic for topic in admin.list_topics() if topic.startswith(name)] == [f"{name}-a"]
    deleted = admin.delete_topics([f"{name}-a", f"{name}-b"])
    assert kinds(deleted) == {f"{name}-a": None, f"{name}-b": UnknownTopicOrPartition}
    assert not [topic for topic in admin.list_topics() if topic.startswith(name)]


def test_what_is_only_validated_is_not_done(admin: Admin, controller: RawClient, name: str) -> None:
    assert kinds(admin.create_topics([NewTopic(name)], validate_only=True)) == {name: None}
    assert name not in admin.list_topics()
    admin.create_topic(name)
    grow = CreatePartitionsRequest([NewPartitions(name, 4), NewPartitions(name + "x", 4)], 5000, True)
    assert codes(controller.ask(grow, CreatePartitionsResponse).topics) == [0, UnknownTopicOrPartition.code]
    assert kinds(admin.incremental_alter_configs({name: {"retention.ms": "5"}}, validate_only=True)) == {name: None}
    described = admin.describe_topic(name)
    assert (len(described.partitions), described.config) == (1, {})


def test_topic_named_twice_and_lists_that_are_empty_or_too_long(controller: RawClient, name: str) -> None:
    twice = [WireTopic(name, 1, 1, {}), WireTopic(name, 2, 1, {}), WireTopic(f"{name}-other", 1, 1, {})]
    answer = controller.ask(CreateTopicsRequest(twice, 5000), CreateTopicsResponse)
    assert codes(answer.topics) == [InvalidRequest.code, InvalidRequest.code, 0]
    assert controller.ask(CreateTopicsRequest([], 5000), CreateTopicsResponse).topics == []
    assert controller.ask(DeleteTopicsRequest([], 5000), DeleteTopicsResponse).topics == []
    with pytest.raises(InvalidRequest):
        controller.ask(CreateTopicsRequest([WireTopic(name, 1, 1, {})] * 1001, 5000), CreateTopicsResponse)
    gone = DeleteTopicsRequest([TopicToDelete(f"{name}-other"), TopicToDelete(f"{name}-other")], 5000)
    assert codes(controller.ask(gone, DeleteTopicsResponse).topics) == [InvalidRequest.code] * 2


def test_topic_is_deleted_by_its_id(admin: Admin, controller: RawClient, name: str) -> None:
    topic_id = admin.create_topic(name)
    by_id = DeleteTopicsRequest([TopicToDelete("", topic_id)], 5000)
    [deleted] = controller.ask(by_id, DeleteTopicsResponse).topics
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, name, topic_id)
    assert name not in admin.list_topics()
    assert codes(controller.ask(by_id, DeleteTopicsResponse).topics) == [UnknownTopicId.code]


def test_partitions_are_created_in_lists_and_where_it_is_said(admin: Admin, controller: RawClient, name: str) -> None:
    admin.create_topic(name, 2)
    admin.create_topic(f"{name}-b")
    assert kinds(admin.create_partitions({name: 2, f"{name}-b": 3, f"{name}-c": 2})) == {
        name: InvalidPartitions,
        f"{name}-b": None,
        f"{name}-c": UnknownTopicOrPartition,
    }
    placed = CreatePartitionsRequest([NewPartitions(name, 3, [[2]]), NewPartitions(f"{name}-b", 4, [[7]])], 5000)
    assert codes(controller.ask(placed, CreatePartitionsResponse).topics) == [0, InvalidReplicaAssignment.code]
    assert admin.describe_topic(name).partitions[2].replicas == [2]
    assert len(admin.describe_topic(f"{name}-b").partitions) == 3


def test_settings_are_changed_one_by_one(admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"retention.ms": "1000", "segment.ms": "2000"})
    outcomes = admin.incremental_alter_configs(
        {name: {"retention.ms": "3000", "segment.ms": None}, f"{name}-none": {"retention.ms": "1"}}
    )
    assert kinds(outcomes) == {name: None, f"{name}-none": UnknownTopicOrPartition}
    assert admin.describe_topic(name).config == {"retention.ms": "3000"}
    assert kinds(admin.incremental_alter_configs({name: {"retention.ms": "soon"}})) == {name: InvalidConfig}
    assert admin.describe_topic(name).config == {"retention.ms": "3000"}


def test_settings_are_described_with_their_source(admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"retention.ms": "1000"})
    found = {entry.key: (entry.value, entry.source) for entry in admin.describe_configs([name])[name]}
    assert found["retention.ms"] == ("1000", ConfigSource.TOPIC)
    assert found["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert found["min.insync.replicas"] == ("1", ConfigSource.DEFAULT)
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_configs([f"{name}-none"])


def test_partitions_are_moved_in_lists_and_elections_tell_of_each(admin: Admin, name: str) -> None:
    admin.create_topic(name, assignment=[[0, 1], [1, 2]])
    first, second, third = (TopicPartition(name, number) for number in range(3))
    moved = admin.alter_partition_reassignments({first: [2, 0], second: None, third: [0]})
    assert moved[first] is None
    assert isinstance(moved[second], NoReassignmentInProgress)
    assert isinstance(moved[third], UnknownTopicOrPartition)
    wait_until(lambda: admin.list_partition_reassignments([first, second]) == [], WAIT_S)
    wait_until(lambda: admin.describe_topic(name).partitions[0].replicas == [2, 0], WAIT_S)
    assert isinstance(admin.elect_leaders([second])[second], ElectionNotNeeded)
    assert admin.elect_leaders([first])[first] is None or admin.describe_topic(name).partitions[0].leader == 2
    with pytest.raises(UnknownTopicOrPartition):
        admin.elect_leaders([second, third])


def test_what_a_broker_does_bears_the_id_of_what_the_controller_dealt_with(
    cluster: LocalCluster, admin: Admin, name: str
) -> None:
    admin.create_topic(name, replication_factor=3)
    controller = admin.describe_cluster().controller
    event = re.search(
        rf"controller event cause=(\S+): topic '{name}' created by ", cluster.log_path(controller).read_text()
    )
    assert event is not None
    cause = event.group(1)
    assert re.fullmatch(r"\d+-\d+", cause)
    obeyed = f"order obeyed api=LEADER_AND_ISR cause={cause}\n"
    wait_until(lambda: all(obeyed in cluster.log_path(broker).read_text() for broker in cluster.brokers), WAIT_S)
    assert f"topic is written topic={name} cause={cause} action=CreateTopic" in cluster.log_path(controller).read_text()


def test_settings_are_set_and_unset_and_the_others_stay(admin: Admin, name: str) -> None:
    admin.create_topic(name, config={"retention.ms": "1000", "segment.bytes": "1000000"})
    admin.alter_topic_config(
        name, {"retention.ms": 2000, "unclean.leader.election.enable": True}, unset=["segment.bytes"]
    )
    assert admin.describe_topic(name).config == {"retention.ms": "2000", "unclean.leader.election.enable": "true"}
    admin.replace_topic_config(name, {"segment.bytes": 2_000_000})
    assert admin.describe_topic(name).config == {"segment.bytes": "2000000"}
    for settings, unset in (({}, ()), ({"retention.ms": "1"}, ["retention.ms"]), ({"retention.ms": None}, ())):
        with pytest.raises(ConfigError):
            admin.alter_topic_config(name, settings, unset=unset)  # type: ignore[arg-type]
