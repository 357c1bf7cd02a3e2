"""confluent-kafka with group.protocol=consumer: the coordinator assigns (KIP-848)."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from urllib.parse import unquote

import confluent_kafka
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from ottla.client import Admin
from ottla.client.groups.descriptions import GroupDescription
from ottla.local import LocalCluster
from ottla.wire.consumer_groups import TopicPartitions
from ottla.wire.errors import (
    GroupIdNotFound,
    InvalidRegularExpression,
    InvalidRequest,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tests.support.cluster import ottla, wait_until
from tests.support.kafka_clients import WAIT_S, Confluent, Sent
from tests.support.raw_consumer import RawConsumer
from tests.support.raw_member import find_coordinator
from tests.support.znodes import children_of, read_znode

PARTITIONS = 12
SESSION_MS = 3000
ROUNDS = 5
"""A partition that has two owners before and after each member has polled so often has them for more than a moment."""
BROKER = {"group.consumer.session.timeout.ms": str(SESSION_MS), "group.consumer.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Kill nothing, or start it again."""
    with LocalCluster(brokers=3, broker_config=BROKER) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, name: str) -> str:
    _create(cluster, name)
    return name


def _create(cluster: LocalCluster, name: str, partitions: int = PARTITIONS) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=3)


def test_client_that_has_not_joined_commits_while_the_group_is_empty(cluster: LocalCluster, topic: str) -> None:
    """Before: UNKNOWN_MEMBER_ID. librdkafka names its member id, with epoch -1; Kafka takes that while there is no member."""
    group = f"group-{topic}"
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer: Any = confluent_kafka.Consumer({**options, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
        assert found.offset == 7
    finally:
        consumer.close()


class Member:
    """A confluent consumer in a group, and what it was given."""

    there: ClassVar[list["Member"]] = []
    """All that are not closed."""

    def __init__(
        self, cluster: LocalCluster, group: str, *topics: str, protocol: str = "consumer", **more: Any
    ) -> None:
        self.group = group
        self.options = {
            "bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "reconnect.backoff.max.ms": 500, "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }  # fmt: skip
        self.consumer = confluent_kafka.Consumer(self.options)
        self.there.append(self)
        self.values: list[bytes | None] = []
        self.errors: list[KafkaError] = []
        self.revoked = self.lost = 0
        self.consumer.subscribe(list(topics), on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _on_revoke(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += len(partitions)

    def _on_lost(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += len(partitions)

    def poll(self) -> None:
        for found in self.consumer.consume(100, 0.02):
            error = found.error()
            if error is None:
                self.values.append(found.value())
            else:
                self.errors.append(error)

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self.consumer.assignment()}


def _poll_until(members: list[Member], condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Poll one after the other; fail if a partition has two owners for several rounds.

    For a moment it may have: a client that reports what it owns before it takes what it was given, and is then to let go of
    that, takes it all the same (decision 33, Price; Kafka has that, too).
    """
    deadline = time.monotonic() + timeout_s
    shared: list[set[tuple[str, str, int]]] = []
    while not condition():
        assert time.monotonic() < deadline, [(sorted(member.partitions), member.errors) for member in members]
        for member in members:
            member.poll()
            held = Counter(
                (each.group, *one) for each in members for one in each.partitions
            )  # changes only while one polls
            shared = [*shared[-ROUNDS * len(members) :], {one for one, owners in held.items() if owners > 1}]
            lasting = set.intersection(*shared) if len(shared) > ROUNDS * len(members) else set()
            assert not lasting, f"partitions have two owners: {sorted(lasting)}"


def _shared(members: list[Member], count: int = PARTITIONS) -> bool:
    """Whether each partition has one member, and the members as many as is fair."""
    held = [one for member in members for one in member.partitions]
    fair = all(count // len(members) <= len(member.partitions) <= -(-count // len(members)) for member in members)
    return len(held) == len(set(held)) == count and fair


def _close(*members: Member) -> None:
    for member in members:
        member.consumer.close()
        Member.there.remove(member)


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    """A test that has failed leaves nobody behind."""
    yield
    _close(*Member.there)


def _fill(cluster: LocalCluster, topic: str, count: int = 20) -> set[bytes]:
    for partition in range(PARTITIONS):
        records = [Sent(f"{partition}-{i}".encode()) for i in range(count)]
        Confluent().write(cluster.bootstrap, topic, records, partition=partition)
    return {f"{partition}-{i}".encode() for partition in range(PARTITIONS) for i in range(count)}


def _read(members: list[Member]) -> set[bytes]:
    return {value for member in members for value in member.values if value is not None}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go_and_share_what_there_is(cluster: LocalCluster, topic: str, assignor: str) -> None:
    written = _fill(cluster, topic)
    members = [Member(cluster, topic, topic, group_remote_assignor=assignor)]
    _poll_until(members, lambda: _shared(members))
    members += [Member(cluster, topic, topic, group_remote_assignor=assignor) for _ in range(2)]
    _poll_until(members, lambda: _shared(members))
    if assignor == "uniform":
        assert members[0].revoked == PARTITIONS - PARTITIONS // 3, "nothing moves that need not"
    gone = members.pop(1)
    _close(gone)
    _poll_until(members, lambda: _shared(members))
    members.append(Member(cluster, topic, topic, group_remote_assignor=assignor))
    _poll_until(members, lambda: _shared(members))
    _poll_until(members, lambda: _read([*members, gone]) == written)
    _close(*members)
    assert [member.errors for member in members] == [[], [], []]
    assert [member.lost for member in members] == [0, 0, 0]


def test_a_member_that_is_killed_is_out_when_its_session_ends(cluster: LocalCluster, topic: str) -> None:
    command = [sys.executable, "-m", "tests.support.confluent_member", cluster.bootstrap, topic, topic]
    member = Member(cluster, topic, topic)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            _poll_until([member], lambda: len(member.partitions) == PARTITIONS // 2)
            while int(other.stdout.readline()) != PARTITIONS // 2:
                member.poll()
            other.kill()
            killed_at = time.monotonic()
            _poll_until([member], lambda: _shared([member]))
        finally:
            other.kill()
    assert time.monotonic() - killed_at > SESSION_MS / 1000 - 1, "its partitions were not waited for"
    _close(member)


# --- subscriptions -----------------------------------------------------------------------------------------------------------


def test_a_pattern_brings_topics_that_come_later(cluster: LocalCluster, name: str) -> None:
    _create(cluster, f"{name}-a", 3)
    _create(cluster, f"other-{name}-a", 1)
    members = [Member(cluster, name, f"^{name}-[a-c]") for _ in range(2)]
    _poll_until(members, lambda: _shared(members, 3))
    _create(cluster, f"{name}-b", 5)
    _create(cluster, f"{name}-d", 1)
    _poll_until(members, lambda: _shared(members, 8))
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topic(f"{name}-a")
    _poll_until(members, lambda: _shared(members, 5))
    members[1].consumer.subscribe([f"{name}-d"])
    _poll_until(members, lambda: members[1].partitions == {(f"{name}-d", 0)} and _shared(members[:1], 5))
    _close(*members)


def test_a_topic_that_grows_is_shared_anew(cluster: LocalCluster, topic: str) -> None:
    members = [Member(cluster, topic, topic) for _ in range(2)]
    _poll_until(members, lambda: _shared(members))
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_partitions({topic: PARTITIONS + 4})
    _poll_until(members, lambda: _shared(members, PARTITIONS + 4))
    _close(*members)


def test_a_pattern_that_is_none_and_what_is_too_much_is_refused(cluster: LocalCluster, name: str) -> None:
    with RawConsumer(cluster, name, "m") as member:
        assert member.join(topics=None, pattern="a(?=b)").error_code == InvalidRegularExpression.code
        assert member.join(topics=("a" * 1000,) * 100).error_code == InvalidRequest.code
        assert member.heartbeat(1, owned=(TopicPartitions("id", (0,) * 100_001),)).error_code == InvalidRequest.code
        assert member.join(topics=None, pattern="(a+)+$").error_code == 0


# --- the coordinator dies ----------------------------------------------------------------------------------------------------


def test_members_keep_what_they_have_when_their_coordinator_is_killed(cluster: LocalCluster, topic: str) -> None:
    members = [Member(cluster, topic, topic) for _ in range(3)]
    _poll_until(members, lambda: _shared(members))
    written = _fill(cluster, topic)
    _poll_until(members, lambda: _read(members) == written)
    had, revoked = [member.partitions for member in members], [member.revoked for member in members]
    epoch = _described(cluster, topic).generation
    coordinator = find_coordinator(cluster, topic).broker_id
    cluster.kill(coordinator)
    try:
        wait_until(lambda: find_coordinator(cluster, topic).broker_id != coordinator, WAIT_S)
        for member in members:
            member.consumer.commit(asynchronous=False)
        _poll_for(members, 2 * SESSION_MS / 1000)
        assert [member.partitions for member in members] == had
        assert [member.revoked for member in members] == revoked
        assert [member.lost for member in members] == [0, 0, 0]
        assert _described(cluster, topic).generation == epoch, "nobody had to join again"
    finally:
        cluster.start(coordinator)
    _close(members.pop())
    _poll_until(members, lambda: _shared(members))
    _close(*members)


def test_a_hand_over_goes_on_when_the_coordinator_is_killed_in_its_middle(cluster: LocalCluster, topic: str) -> None:
    written = _fill(cluster, topic)
    members = [Member(cluster, topic, topic)]
    _poll_until(members, lambda: _shared(members))
    members += [Member(cluster, topic, topic) for _ in range(2)]
    _poll_until(members, lambda: _described(cluster, topic).state == "Reconciling")
    coordinator = find_coordinator(cluster, topic).broker_id
    cluster.kill(coordinator)
    try:
        _poll_until(members, lambda: _shared(members) and _read(members) == written)
        assert [member.lost for member in members] == [0, 0, 0]
    finally:
        cluster.start(coordinator)
    _close(*members)


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_members_come_and_go_at_random_while_coordinators_are_killed(cluster: LocalCluster, topic: str) -> None:
    seed = int(time.time())
    print("seed", seed)
    chance, members, gone = random.Random(seed), [Member(cluster, topic, topic)], list[Member]()
    written = _fill(cluster, topic, 200)
    for _ in range(25):
        kind = chance.random()
        if kind < 0.4 and len(members) < 5:
            members.append(Member(cluster, topic, topic))
        elif kind < 0.6 and len(members) > 1:
            gone.append(members.pop(chance.randrange(len(members))))
            _close(gone[-1])
        elif kind < 0.8:
            coordinator = find_coordinator(cluster, topic).broker_id
            cluster.kill(coordinator)
            _poll_for(members, chance.uniform(0.2, 2))
            cluster.start(coordinator)
        _poll_for(members, chance.uniform(0, 2))
    _poll_until(members, lambda: _shared(members) and _read([*members, *gone]) == written)
    assert [member.lost for member in (*members, *gone)] == [0] * len([*members, *gone])
    _close(*members)


def _poll_for(members: list[Member], seconds: float) -> None:
    until = time.monotonic() + seconds
    _poll_until(members, lambda: time.monotonic() > until)


def _described(cluster: LocalCluster, group: str) -> GroupDescription:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        return admin.describe_group(group, timeout=WAIT_S)


# --- what was read -----------------------------------------------------------------------------------------------------------


def _read_and_commit(cluster: LocalCluster, topic: str, count: int, protocol: str) -> list[bytes | None]:
    member = Member(cluster, topic, topic, protocol=protocol)
    found: list[Any] = []
    while len(found) < count:
        got = member.consumer.consume(count - len(found), WAIT_S)
        assert got, f"{len(found)} of {count} records came"
        found += got
    member.consumer.commit(asynchronous=False)
    _close(member)
    return [one.value() for one in found]


def test_a_group_that_has_become_empty_may_be_of_the_other_kind_and_goes_on_where_it_was(
    cluster: LocalCluster, name: str
) -> None:
    _create(cluster, name, 1)
    values: list[bytes | None] = [str(i).encode() for i in range(40)]
    Confluent().write(cluster.bootstrap, name, [Sent(value) for value in values])
    kinds = ["consumer", "classic", "consumer", "consumer"]
    assert [value for kind in kinds for value in _read_and_commit(cluster, name, 10, kind)] == values


def test_an_old_epoch_commits_and_is_told_nothing(cluster: LocalCluster, topic: str) -> None:
    with RawConsumer(cluster, topic, "m") as member:
        epoch = member.join().member_epoch
        assert [member.commit("m", epoch), member.fetch("m", epoch)] == [0, 0]
        assert [member.commit("m", epoch - 1), member.fetch("m", epoch - 1)] == [StaleMemberEpoch.code] * 2
        assert [member.commit("n", epoch), member.fetch("n", epoch)] == [UnknownMemberId.code] * 2
        assert [member.commit("", -1), member.fetch(None, -1)] == [NonEmptyGroup.code, 0]
        member.leave()
        assert [member.commit("m", epoch), member.commit("", -1)] == [UnknownMemberId.code, 0]


def test_a_heartbeat_that_changes_nothing_writes_nothing(cluster: LocalCluster, topic: str) -> None:
    members = [Member(cluster, topic, topic) for _ in range(2)]
    _poll_until(members, lambda: _shared(members))
    _poll_until(members, lambda: _described(cluster, topic).state == "Stable")
    version = read_znode(cluster, f"/consumers/{topic}").version
    _poll_for(members, 2)
    assert read_znode(cluster, f"/consumers/{topic}").version == version
    owners = {
        read_znode(cluster, f"/consumers/{topic}/owners/{topic}/{number}").data.decode() for number in range(PARTITIONS)
    }
    assert owners == set(map(unquote, children_of(cluster, f"/consumers/{topic}/ids"))), "people see who has what"
    _close(*members)


# --- static members, and groups of the other kind ----------------------------------------------------------------------------


def test_a_static_member_that_returns_disturbs_nobody(cluster: LocalCluster, topic: str) -> None:
    members = [Member(cluster, topic, topic, group_instance_id=f"instance-{i}") for i in range(2)]
    _poll_until(members, lambda: _shared(members))
    mine, revoked = members[1].partitions, members[0].revoked
    _close(members.pop())
    back = Member(cluster, topic, topic, group_instance_id="instance-1")
    _poll_until([*members, back], lambda: back.partitions == mine)
    assert members[0].revoked == revoked
    _close(back)
    _poll_until(members, lambda: _shared(members))  # it does not come again: its session ends
    _close(*members)


def test_a_second_one_with_the_same_instance_id_is_kept_out(cluster: LocalCluster, topic: str) -> None:
    first = Member(cluster, topic, topic, group_instance_id="instance")
    _poll_until([first], lambda: _shared([first]))
    with RawConsumer(cluster, topic, "another") as second:
        assert second.join(instance_id="instance").error_code == UnreleasedInstanceId.code
    _poll_until([first], lambda: _shared([first]))
    _close(first)


def test_a_group_with_members_refuses_those_of_the_other_kind(cluster: LocalCluster, topic: str) -> None:
    new = Member(cluster, topic, topic)
    _poll_until([new], lambda: _shared([new]))
    old = Member(cluster, topic, topic, protocol="classic")
    _poll_until([old, new], lambda: bool(old.errors))
    assert {error.code() for error in old.errors} == {KafkaError.INCONSISTENT_GROUP_PROTOCOL}
    assert _shared([new])
    _close(new)
    _poll_until([old], lambda: _shared([old]))
    with RawConsumer(cluster, topic, "m") as member:
        assert member.join().error_code == GroupIdNotFound.code
    late = Member(cluster, topic, topic)
    _poll_until([old, late], lambda: bool(late.errors))
    assert [error.code() for error in late.errors] == [KafkaError._FATAL], "librdkafka does not try again"
    _close(old, late)
    with RawConsumer(cluster, topic, "m") as member:
        assert member.heartbeat(7).error_code == UnknownMemberId.code, "the classic group is empty by now"
    late = Member(cluster, topic, topic)
    _poll_until([late], lambda: _shared([late]))
    _close(late)


# --- looking after them ------------------------------------------------------------------------------------------------------


def test_kafkas_admin_sees_both_kinds(cluster: LocalCluster, topic: str) -> None:
    classic = f"classic-{topic}"
    members = [Member(cluster, topic, topic), Member(cluster, classic, topic, protocol="classic")]
    _poll_until(members, lambda: all(_shared([member]) for member in members))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def listed(**options: Any) -> dict[str, Any]:
        found = admin.list_consumer_groups(**options).result(WAIT_S).valid
        return {one.group_id: one.type for one in found if topic in one.group_id}

    assert listed() == {topic: ConsumerGroupType.CONSUMER, classic: ConsumerGroupType.CLASSIC}
    assert listed(types={ConsumerGroupType.CONSUMER}) == {topic: ConsumerGroupType.CONSUMER}
    assert listed(types={ConsumerGroupType.CLASSIC}) == {classic: ConsumerGroupType.CLASSIC}
    assert listed(states={ConsumerGroupState.EMPTY}) == {}
    described = {group: one.result(WAIT_S) for group, one in admin.describe_consumer_groups([topic, classic]).items()}
    assert {group: (one.type, one.state) for group, one in described.items()} == {
        topic: (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE),
        classic: (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE),
    }
    (member,) = described[topic].members
    assert described[topic].partition_assignor == "uniform"
    assert len(member.assignment.topic_partitions) == len(member.target_assignment.topic_partitions) == PARTITIONS
    with RawConsumer(cluster, topic, "") as asks:
        assert asks.describe(topic) == {"classic": GroupIdNotFound.code, "consumer": 0}
    with RawConsumer(cluster, classic, "") as asks:
        assert asks.describe(classic) == {"classic": 0, "consumer": GroupIdNotFound.code}
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([topic])[topic].result(WAIT_S)
    for one in members:
        one.consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    asked = [ConsumerGroupTopicPartitions(topic)]
    committed = admin.list_consumer_group_offsets(asked)[topic].result(WAIT_S)
    assert [(one.topic, one.partition, one.offset) for one in committed.topic_partitions] == [(topic, 0, 0)]
    _close(*members)
    admin.delete_consumer_groups([topic])[topic].result(WAIT_S)
    assert topic not in listed()


def test_ottla_group_looks_after_such_a_group(cluster: LocalCluster, topic: str) -> None:
    members = [Member(cluster, topic, topic) for _ in range(2)]
    _poll_until(members, lambda: _shared(members))
    written = _fill(cluster, topic, 2)
    _poll_until(members, lambda: _read(members) == written)
    for member in members:
        member.consumer.commit(asynchronous=False)

    def group(command: str, *more: str) -> Any:
        done = ottla("group", command, *more, "--format", "json", bootstrap=cluster.bootstrap)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert {"group": topic, "state": "Stable"} in group("list")
    described = group("describe", topic)
    assert (described["state"], described["strategy"]) == ("Stable", "uniform")
    assert [len(member["partitions"]) for member in described["members"]] == [PARTITIONS // 2] * 2
    assert [one["lag"] for one in group("lag", topic)] == [0] * PARTITIONS
    refused = ottla("group", "reset", topic, "--execute", bootstrap=cluster.bootstrap)
    assert (refused.returncode, "has 2 members" in refused.stderr) == (1, True)
    _close(*members)
    group("reset", topic, "--execute")
    assert [one["lag"] for one in group("lag", topic)] == [2] * PARTITIONS
    done = ottla("group", "delete", topic, "--yes", bootstrap=cluster.bootstrap)
    assert done.returncode == 0, done.stderr
    assert topic not in {one["group"] for one in group("list")}
