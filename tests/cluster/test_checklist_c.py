"""docs/checklist.md, section C: topics and placement. Three brokers; the racks are in test_checklist_racks.py."""

import uuid

import pytest

from ottla.wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    MessageTooLarge,
    NotEnoughReplicas,
)
from ottla.wire.messages import ACKS_LEADER
from tests.support.cluster import wait_until
from tests.support.observer import WAIT_S, Observer
from tests.support.raw_client import one_record, patiently

pytestmark = pytest.mark.cluster

BROKERS = 3


def folders(seen: Observer, topic: str) -> dict[int, list[int]]:
    """The partitions that each broker has a folder for."""
    found: dict[int, list[int]] = {}
    for broker in seen.cluster.brokers:
        names = [path.name.removeprefix(f"{topic}-") for path in seen.cluster.data_path(broker).glob(f"{topic}-*")]
        found[broker] = sorted(int(name) for name in names if name.isdigit())  # others are on their way out
    return found


# --- what a topic is ---


def test_s28_s92_everything_about_a_topic_stands_in_zookeeper(seen: Observer, name: str) -> None:
    settings = {"retention.ms": "60000", "min.insync.replicas": "2"}
    seen.admin.create_topic(name, assignment=[[2, 0], [1, 2], [0, 1]], config=settings, timeout=WAIT_S)
    assert name in seen.zk.get_children("/brokers/topics"), "which topics exist"
    assignment = seen.assignment(name)
    assert len(assignment) == 3, "how many partitions each has"
    assert assignment == {0: [2, 0], 1: [1, 2], 2: [0, 1]}, "where the replicas are"
    assert [replicas[0] for replicas in assignment.values()] == [2, 1, 0], "who the preferred leader is"
    assert seen.read(f"/config/topics/{name}")["config"] == settings, "what overrides are set"
    assert sorted(seen.zk.get_children(f"/brokers/topics/{name}/partitions")) == ["0", "1", "2"]
    assert [seen.leader(name, p) for p in range(3)] == [2, 1, 0]


def test_s30_partitions_are_queues_of_their_own_each_in_order(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, partitions=3, replication_factor=3, timeout=WAIT_S)
    for start in range(0, 300, 100):
        for partition in range(3):
            seen.produce(name, [b"%d %d" % (partition, n) for n in range(start, start + 100)], partition)
    found = seen.consume(name, 900)
    assert found == {partition: [b"%d %d" % (partition, n) for n in range(300)] for partition in range(3)}


def test_s31_s32_partition_is_stored_whole_on_each_of_its_brokers_and_nowhere_else(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=[[0, 1], [1, 2], [2, 0], [0, 2]], timeout=WAIT_S)
    assert folders(seen, name) == {0: [0, 2, 3], 1: [0, 1], 2: [1, 2, 3]}
    for partition in range(4):
        seen.produce(name, [b"%d-%d" % (partition, n) for n in range(50)], partition)
    seen.wait_in_sync(name)
    for partition, replicas in seen.assignment(name).items():
        for broker in replicas:
            stored = seen.segments(broker, name, partition)
            assert all(b"%d-%d" % (partition, n) in stored for n in range(50))


def test_s35_replicas_are_byte_identical(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, partitions=3, replication_factor=3, config={"segment.bytes": "20000"}, timeout=WAIT_S)
    for _ in range(10):
        seen.produce(name, [uuid.uuid4().bytes * 20 for _ in range(60)])
    seen.wait_in_sync(name)
    for partition in range(3):
        names, contents = set(), set()
        for broker in seen.cluster.brokers:
            folder = seen.cluster.data_path(broker) / f"{name}-{partition}"
            logs = sorted(folder.glob("*.log"))
            assert len(logs) > 1, "more than one segment, or the test shows less than it says"
            names.add(tuple(path.name for path in logs))
            contents.add(tuple(path.read_bytes() for path in logs))
        assert len(names) == len(contents) == 1


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "told to stop"])
def test_s36_s54_with_two_of_three_brokers_down_everything_acked_is_read(
    seen: Observer, name: str, clean: bool
) -> None:
    seen.admin.create_topic(name, partitions=6, replication_factor=3, timeout=WAIT_S)
    values = [b"%d" % n for n in range(3000)]
    seen.produce(name, values)
    last = (seen.wait_controller() + 1) % 3
    for dead in seen.cluster.brokers:
        if dead != last:
            (seen.cluster.terminate if clean else seen.cluster.kill)(dead)
    assert flat(seen.consume(name, len(values))) == values
    assert all(seen.leader(name, p) == last for p in range(6))
    seen.produce(name, [b"%d" % n for n in range(3000, 3060)])
    seen.start_all()
    seen.wait_in_sync(name)
    assert flat(seen.consume(name, 3060)) == [b"%d" % n for n in range(3060)]


def test_s36_with_min_insync_2_the_last_broker_commits_nothing_and_all_is_read_when_one_is_back(
    seen: Observer, name: str
) -> None:
    settings = {"min.insync.replicas": "2"}
    seen.admin.create_topic(name, partitions=6, replication_factor=3, config=settings, timeout=WAIT_S)
    values = [b"%d" % n for n in range(3000)]
    seen.produce(name, values)
    last = (seen.wait_controller() + 1) % 3
    dead = [broker for broker in seen.cluster.brokers if broker != last]
    for broker in dead:
        seen.cluster.kill(broker)
    wait_until(lambda: all(seen.leader(name, p) == last and seen.isr(name, p) == [last] for p in range(6)), WAIT_S)
    with seen.connect(last) as client:
        wait_until(lambda: client.produce(name, one_record(), acks=-1).error_code == NotEnoughReplicas.code, WAIT_S)
        # acks=1 is taken and not shown: those that are away would lack it, and one of them may lead next.
        alone = client.produce(name, one_record(b"3000"), acks=ACKS_LEADER)
        alone.raise_if_failed()
        assert client.fetch(name, 0)[0].parts[0].high_watermark <= alone.base_offset
    # The last one may not know yet how far the high watermark was; with a second one it finds out again.
    seen.cluster.start(dead[0])
    assert flat(seen.consume(name, 3001)) == [*values, b"3000"]


def flat(found: dict[int, list[bytes]]) -> list[bytes]:
    """All values that are numbers, in order."""
    return sorted((value for part in found.values() for value in part), key=int)


# --- coming, going, changing ---


def test_s42_topic_marked_in_zookeeper_is_deleted(seen: Observer, name: str) -> None:
    first = seen.admin.create_topic(name, partitions=3, replication_factor=3, timeout=WAIT_S)
    seen.produce(name, [b"v"] * 30)
    seen.zk.create(f"/admin/delete_topics/{name}")
    wait_until(lambda: seen.zk.exists(f"/brokers/topics/{name}") is None, WAIT_S)
    wait_until(lambda: seen.zk.exists(f"/admin/delete_topics/{name}") is None, WAIT_S)
    assert seen.zk.exists(f"/config/topics/{name}") is None
    wait_until(lambda: folders(seen, name) == {0: [], 1: [], 2: []}, WAIT_S)
    wait_until(lambda: all(seen.described(i, name).error_code == 3 for i in seen.cluster.brokers), WAIT_S)
    assert seen.admin.create_topic(name, timeout=WAIT_S) != first, "the name is free again"


def test_s42_deletion_waits_for_a_broker_that_is_away_and_survives_the_controller(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, partitions=3, replication_factor=3, timeout=WAIT_S)
    controller = seen.wait_controller()
    away = (controller + 1) % 3
    seen.cluster.kill(away)
    seen.zk.create(f"/admin/delete_topics/{name}")
    wait_until(lambda: not folders(seen, name)[controller], WAIT_S)
    assert folders(seen, name)[away] == [0, 1, 2]
    seen.cluster.kill(controller)
    seen.wait_controller()
    seen.start_all()
    wait_until(lambda: seen.zk.exists(f"/brokers/topics/{name}") is None, WAIT_S)
    wait_until(lambda: folders(seen, name) == {0: [], 1: [], 2: []}, WAIT_S)


def test_s42_topic_gets_more_partitions_and_keeps_what_it_has(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, partitions=2, replication_factor=3, timeout=WAIT_S)
    seen.produce(name, [b"old"] * 20)
    before = seen.assignment(name)
    seen.admin.add_partitions(name, 6, timeout=WAIT_S)
    after = seen.assignment(name)
    assert sorted(after) == list(range(6))
    assert {p: after[p] for p in before} == before
    leaders = [seen.leader(name, p) for p in range(6)]
    assert max(map(leaders.count, range(3))) - min(map(leaders.count, range(3))) <= 1, "leaders are still even"
    wait_until(lambda: all(len(seen.described(i, name).partitions) == 6 for i in seen.cluster.brokers), WAIT_S)
    seen.produce(name, [b"new"] * 60)
    found = seen.consume(name, 80)
    assert sorted(found) == list(range(6)), "all partitions are written to"
    assert all(len(found[p]) == 10 for p in range(2, 6))
    seen.wait_in_sync(name)
    for count in (6, 5, 0, -1, 1_000_000):
        with pytest.raises(InvalidPartitions):
            seen.admin.add_partitions(name, count, timeout=WAIT_S)
    assert len(seen.assignment(name)) == 6


def test_s28_settings_change_at_run_time(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, replication_factor=3, config={"max.message.bytes": "100000"}, timeout=WAIT_S)
    large = one_record(b"x" * 5000)
    with seen.connect(seen.leader(name)) as client:
        client.produce(name, bytearray(large)).raise_if_failed()
        seen.admin.alter_topic_config(name, {"max.message.bytes": "2000"}, timeout=WAIT_S)
        assert client.produce(name, bytearray(large)).error_code == MessageTooLarge.code
        for broker in seen.cluster.brokers:
            assert seen.described(broker, name).config == {"max.message.bytes": "2000"}
        assert seen.read(f"/config/topics/{name}")["config"] == {"max.message.bytes": "2000"}
        with pytest.raises(InvalidConfig):
            seen.admin.alter_topic_config(name, {"max.message.bytes": "soon"}, timeout=WAIT_S)
        assert client.produce(name, bytearray(large)).error_code == MessageTooLarge.code, (
            "what was refused changed nothing"
        )
        seen.admin.replace_topic_config(name, {}, timeout=WAIT_S)
        client.produce(name, bytearray(large)).raise_if_failed()


def test_s28_settings_are_obeyed_by_the_next_leader_too(seen: Observer, name: str) -> None:
    dead = (seen.wait_controller() + 1) % 3
    seen.admin.create_topic(name, assignment=[[dead, (dead + 1) % 3, (dead + 2) % 3]], timeout=WAIT_S)
    seen.admin.alter_topic_config(name, {"max.message.bytes": "2000"}, timeout=WAIT_S)
    seen.cluster.kill(dead)
    wait_until(lambda: seen.works(name) and seen.leader(name) != dead, WAIT_S)
    with seen.connect(seen.leader(name)) as client:
        patiently(lambda: client.produce(name, one_record()).raise_if_failed())
        assert client.produce(name, one_record(b"x" * 5000)).error_code == MessageTooLarge.code


def test_s28_preferred_leaders_get_back_what_is_theirs_on_demand(seen: Observer, name: str) -> None:
    preferred = (seen.wait_controller() + 1) % 3
    others = [(preferred + 1) % 3, (preferred + 2) % 3]
    seen.admin.create_topic(name, assignment=[[preferred, *others]] * 2, timeout=WAIT_S)
    seen.cluster.terminate(preferred)
    wait_until(lambda: [seen.leader(name, p) for p in range(2)] == [others[0]] * 2, WAIT_S)
    wait_until(lambda: preferred not in seen.broker_ids(), WAIT_S)
    wait_until(lambda: all(preferred not in seen.isr(name, p) for p in range(2)), WAIT_S)
    epochs = [seen.state(name, p)["leader_epoch"] for p in range(2)]
    seen.admin.elect_leaders(timeout=WAIT_S)
    assert seen.leader(name) == others[0], "who is away is not elected"
    assert [seen.state(name, p)["leader_epoch"] for p in range(2)] == epochs, "not even for a moment"
    seen.cluster.start(preferred)
    seen.wait_in_sync(name)
    seen.admin.elect_leaders([(name, 1)], timeout=WAIT_S)
    assert [seen.leader(name, p) for p in range(2)] == [others[0], preferred], "only the one that was named"
    seen.admin.elect_leaders(timeout=WAIT_S)
    assert [seen.leader(name, p) for p in range(2)] == [preferred] * 2
    seen.produce(name, [b"v"] * 10)
    assert sum(map(len, seen.consume(name, 10).values())) == 10


def test_s28_partitions_move_to_other_brokers_with_all_their_records(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=[[0, 1]] * 6, timeout=WAIT_S)
    values = [b"%d" % n for n in range(500)]
    for partition in range(5):
        seen.produce(name, values, partition)
    seen.produce(name, [b"stays"], 5)
    targets = {partition: [2, 1] for partition in range(4)} | {4: [0, 2]}  # the leader goes, or it stays
    for partition, target in targets.items():
        seen.admin.reassign(name, partition, target, timeout=WAIT_S)
    # Exactly the new replicas are in sync: one that is deleted must not have come back into the ISR meanwhile.
    wait_until(lambda: {p: seen.assignment(name)[p] for p in targets} == targets, WAIT_S)
    wait_until(lambda: all(seen.isr(name, p) == sorted(target) for p, target in targets.items()), WAIT_S)
    wait_until(lambda: folders(seen, name) == {0: [4, 5], 1: [0, 1, 2, 3, 5], 2: [0, 1, 2, 3, 4]}, WAIT_S)
    assert all(seen.isr(name, p) == sorted(target) and seen.leader(name, p) in target for p, target in targets.items())
    # One epoch to begin with, one to end: the controller took the replica out, not the leader when it had lagged for long.
    assert seen.state(name, 4)["leader_epoch"] >= 2
    assert seen.assignment(name)[5] == [0, 1]

    def ended() -> bool:
        written = seen.read(f"/brokers/topics/{name}")
        return bool(written["adding_replicas"] == written["removing_replicas"] == {})

    wait_until(ended, WAIT_S)  # the controller hears of a deletion after the folder is gone
    seen.produce(name, [b"more"], 0)
    expected = {partition: list(values) for partition in targets} | {5: [b"stays"]}
    expected[0].append(b"more")
    assert seen.consume(name, 2502) == expected
    for senseless in ([], [9], [1, 1]):
        with pytest.raises(InvalidReplicaAssignment):
            seen.admin.reassign(name, 0, senseless, timeout=WAIT_S)
    assert seen.assignment(name)[0] == [2, 1]
