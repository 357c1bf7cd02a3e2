"""docs/checklist.md, section B: the controller. Three brokers that the tests kill and start again."""

import re

import pytest

from ottla.wire.admin import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    ConfigAlteration,
    ConfigReplacement,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectionType,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicToDelete,
)
from ottla.wire.errors import NotController
from ottla.wire.messages import Request
from tests.support.cluster import wait_until
from tests.support.observer import WAIT_S, Observer
from tests.support.raw_client import one_record, patiently

pytestmark = pytest.mark.cluster

BROKERS = 3


def rotations(partitions: int = 6) -> list[list[int]]:
    """Assignments in which every broker is first, second and third, in both directions."""
    return [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]][:partitions]


def terms(seen: Observer) -> list[int]:
    """The epochs of all terms that any broker has begun, in all its lives."""
    found = []
    for broker in seen.cluster.brokers:
        found += [int(epoch) for epoch in re.findall(r"controller term begins epoch=(\d+)", seen.log(broker))]
    return found


# --- who is it? ---


def test_s15_broker_that_joins_first_becomes_controller(seen: Observer) -> None:
    for order in ([2, 0, 1], [1, 2, 0]):
        for broker in seen.cluster.brokers:
            seen.cluster.terminate(broker)
        assert seen.controller() is None, "the znode goes with the broker that made it"
        seen.cluster.start(order[0])
        wait_until(lambda: seen.controller() is not None, WAIT_S)
        assert seen.controller() == order[0]
        assert seen.owner("/controller") == seen.owner(f"/brokers/ids/{order[0]}"), "ephemeral, of the broker's session"
        for broker in order[1:]:
            seen.cluster.start(broker)
            assert seen.controller() == order[0]


def test_s16_losers_of_the_race_are_told_that_the_znode_exists(seen: Observer) -> None:
    winner, epoch = seen.wait_controller(), seen.controller_epoch()
    says = f"controller exists broker={winner} epoch={epoch} (NodeExists)"
    losers = [broker for broker in seen.cluster.brokers if broker != winner]
    wait_until(lambda: all(says in seen.log(broker) for broker in losers), WAIT_S)
    assert says not in seen.log(winner)


def test_s17_every_broker_watches_the_controller_znode(seen: Observer) -> None:
    sessions = {seen.owner(f"/brokers/ids/{broker}") for broker in seen.cluster.brokers}
    wait_until(lambda: sessions <= seen.watchers("/controller"), WAIT_S)


def test_s18_another_broker_becomes_controller_when_it_dies(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=rotations(), timeout=WAIT_S)
    for _ in range(3):
        dead, epoch = seen.wait_controller(), seen.controller_epoch()
        seen.cluster.kill(dead)
        wait_until(lambda dead=dead: seen.controller() not in (None, dead), WAIT_S)  # type: ignore[misc]
        assert seen.controller_epoch() == epoch + 1
        successor = seen.wait_controller()
        # It acts: it has moved what the dead broker led, and everybody alive has heard who it is.
        wait_until(lambda: seen.works(name), WAIT_S)
        alive = [broker for broker in seen.cluster.brokers if broker != dead]
        wait_until(lambda s=successor, a=alive: all(seen.metadata(i).controller == s for i in a), WAIT_S)  # type: ignore[misc]
        seen.cluster.start(dead)
        assert seen.controller() == successor, "a broker that comes back takes nothing away"


def test_s14_there_is_one_controller_and_no_two_had_the_same_epoch(seen: Observer) -> None:
    for _ in range(2):
        dead = seen.wait_controller()
        seen.expire(seen.owner("/controller"))  # its process lives on and must learn that it is controller no more
        wait_until(lambda: seen.controller() is not None, WAIT_S)
        wait_until(lambda: len(seen.broker_ids()) == 3, WAIT_S)
        assert seen.cluster.alive(dead)
    seen.wait_controller()

    def acting() -> list[int]:
        return [broker for broker in seen.cluster.brokers if seen.metric(broker, "ottla_active_controller") == 1]

    wait_until(lambda: acting() == [seen.controller()], WAIT_S)
    began = terms(seen)
    assert len(began) == len(set(began))
    assert max(began) == seen.controller_epoch()
    wait_until(lambda: len({seen.metadata(broker).controller for broker in seen.cluster.brokers}) == 1, WAIT_S)


def test_s19_controller_is_a_normal_broker_too(seen: Observer, name: str) -> None:
    controller = seen.wait_controller()
    other = (controller + 1) % 3
    seen.admin.create_topic(name, assignment=[[controller, other], [other, controller]], timeout=WAIT_S)
    with seen.connect(controller) as client:
        client.wait_until_led(name)
        client.produce(name, one_record(b"to the controller"), acks=-1).raise_if_failed()
        assert b"to the controller" in client.fetch(name, 0)[1]
    seen.produce(name, [b"to the other"], partition=1)
    seen.wait_in_sync(name)
    assert seen.segments(controller, name, 1) == seen.segments(other, name, 1) != b"", "it leads, and follows as well"


# --- what does it do? ---


def test_s20_controller_learns_from_the_broker_list_alone(seen: Observer, name: str) -> None:
    controller = seen.wait_controller()
    lost = (controller + 1) % 3
    seen.admin.create_topic(name, assignment=[[lost, controller]], timeout=WAIT_S)
    others = sorted(broker for broker in seen.cluster.brokers if broker != lost)
    heard = f"brokers changed live={others} before=[0, 1, 2]"
    before = seen.log(controller).count(heard)
    # The process lives and its connections stand: nothing but the watch on /brokers/ids can tell the controller.
    seen.expire(seen.owner(f"/brokers/ids/{lost}"))
    wait_until(lambda: seen.log(controller).count(heard) == before + 1, WAIT_S)
    wait_until(lambda: seen.leader(name) == controller, WAIT_S)
    seen.wait_in_sync(name)


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "told to stop"])
def test_s21_s22_s51_next_live_replica_in_the_list_leads(seen: Observer, name: str, clean: bool) -> None:
    seen.admin.create_topic(name, assignment=rotations(), timeout=WAIT_S)
    assert [seen.leader(name, p) for p in range(6)] == [replicas[0] for replicas in rotations()]
    epochs = [seen.state(name, p)["leader_epoch"] for p in range(6)]
    dead = (seen.wait_controller() + 1) % 3
    (seen.cluster.terminate if clean else seen.cluster.kill)(dead)
    expected = [next(broker for broker in replicas if broker != dead) for replicas in rotations()]
    wait_until(lambda: [seen.leader(name, p) for p in range(6)] == expected, WAIT_S)
    wait_until(lambda: all(dead not in seen.isr(name, p) for p in range(6)), WAIT_S)
    for partition in [p for p, replicas in enumerate(rotations()) if replicas[0] == dead]:
        state = seen.state(name, partition)
        assert state["leader_epoch"] > epochs[partition], "a new leader begins a new epoch"
        assert state["controller_epoch"] == seen.controller_epoch()


def test_s22_controller_that_dies_with_what_it_leads_is_replaced_in_both_roles(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=rotations(), timeout=WAIT_S)
    dead = seen.wait_controller()
    seen.cluster.kill(dead)
    expected = [next(broker for broker in replicas if broker != dead) for replicas in rotations()]
    wait_until(lambda: [seen.leader(name, p) for p in range(6)] == expected, WAIT_S)


def test_s23_s24_new_leader_serves_and_followers_replicate_from_it(seen: Observer, name: str) -> None:
    dead = (seen.wait_controller() + 1) % 3
    new, follower = (dead + 1) % 3, (dead + 2) % 3
    elsewhere = f"{name}-elsewhere"
    seen.admin.create_topic(name, assignment=[[dead, new, follower]], timeout=WAIT_S)
    seen.admin.create_topic(elsewhere, assignment=[[dead, new]], timeout=WAIT_S)
    seen.produce(name, [b"before"] * 10)
    seen.cluster.kill(dead)
    wait_until(lambda: all(seen.described(i, name).partitions[0].leader == new for i in (new, follower)), WAIT_S)
    # A broker that has no replica of a partition is told who leads it all the same.
    wait_until(lambda: seen.described(follower, elsewhere).partitions[0].leader == new, WAIT_S)
    with seen.connect(new) as client:
        patiently(lambda: client.produce(name, one_record(b"after"), acks=-1).raise_if_failed())
        assert b"after" in client.fetch(name, 10)[1]
    wait_until(lambda: seen.segments(new, name) == seen.segments(follower, name), WAIT_S)
    assert b"after" in seen.segments(follower, name)
    with seen.connect(follower) as client:
        refused = client.produce(name, one_record(b"not here"))
    assert (refused.error_code, refused.leader) == (6, new)


def test_s25_broker_that_comes_back_is_told_its_part_catches_up_and_is_in_sync(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=rotations(), timeout=WAIT_S)
    seen.produce(name, [b"%d" % n for n in range(60)])
    back = (seen.wait_controller() + 1) % 3
    seen.cluster.kill(back)
    wait_until(lambda: all(back not in seen.isr(name, p) for p in range(6)), WAIT_S)
    seen.produce(name, [b"%d" % n for n in range(60, 1200)])
    leaders = [seen.leader(name, p) for p in range(6)]
    seen.cluster.start(back)
    seen.wait_in_sync(name)
    assert [seen.leader(name, p) for p in range(6)] == leaders, "it joins as a follower"
    told = seen.described(back, name).partitions
    assert [partition.leader for partition in told] == leaders
    for partition, leader in enumerate(leaders):
        assert seen.segments(back, name, partition) == seen.segments(leader, name, partition) != b""


def test_s25_new_broker_gets_replicas_of_topics_created_while_it_was_away(seen: Observer, name: str) -> None:
    away = (seen.wait_controller() + 1) % 3
    others = [broker for broker in seen.cluster.brokers if broker != away]
    seen.admin.create_topic(name, assignment=[[others[0], away]], timeout=WAIT_S)
    seen.cluster.kill(away)
    wait_until(lambda: seen.isr(name) == [others[0]], WAIT_S)
    seen.admin.alter_topic_config(name, {"max.message.bytes": "5000"}, timeout=WAIT_S)
    seen.admin.create_topic(f"{name}-while-away", replication_factor=2, timeout=WAIT_S)
    seen.cluster.start(away)
    wait_until(lambda: seen.described(away, name).config == {"max.message.bytes": "5000"}, WAIT_S)
    wait_until(lambda: f"{name}-while-away" in {t.name for t in seen.metadata(away).topics}, WAIT_S)
    seen.wait_in_sync(name)


def requests_for_the_controller(name: str) -> list[Request]:
    return [
        CreateTopicsRequest([NewTopic(name, 1, 1, {})], 10_000),
        DeleteTopicsRequest([TopicToDelete(name)], 10_000),
        CreatePartitionsRequest([NewPartitions(name, 2)], 10_000),
        AlterConfigsRequest([ConfigReplacement(2, name, {})], 10_000),
        IncrementalAlterConfigsRequest([ConfigAlteration(2, name, [])], 10_000),
        AlterPartitionReassignmentsRequest([Reassignment(name, 0, [0])], 10_000),
        ListPartitionReassignmentsRequest(None, 10_000),
        ElectLeadersRequest(ElectionType.PREFERRED, None, 10_000),
    ]


def test_s26_only_the_controller_assigns_work(seen: Observer, name: str) -> None:
    controller = seen.wait_controller()
    for broker in seen.cluster.brokers:
        for request in requests_for_the_controller(name):
            if broker != controller:
                with seen.connect(broker) as client:
                    assert client.error_of(request) is NotController, request
    assert seen.zk.exists(f"/brokers/topics/{name}") is None
    with seen.connect(controller) as client:
        assert client.error_of(requests_for_the_controller(name)[0]) is None
    assert seen.state(name)["controller_epoch"] == seen.controller_epoch()


def test_s27_controller_keeps_leaders_and_followers_in_order_through_failures(seen: Observer, name: str) -> None:
    seen.admin.create_topic(name, assignment=rotations(), timeout=WAIT_S)
    for broker in seen.cluster.brokers:
        seen.produce(name, [b"round %d" % broker] * 60)
        seen.cluster.kill(broker)
        wait_until(lambda: seen.works(name), WAIT_S)
        seen.cluster.start(broker)
        seen.wait_in_sync(name)
    # One leader for each partition, which is in sync, the same to ZooKeeper and to every broker.
    wait_until(lambda: seen.works(name), WAIT_S)
    for partition in range(6):
        state = seen.state(name, partition)
        assert state["leader"] in state["isr"]
        for broker in seen.cluster.brokers:
            told = seen.described(broker, name).partitions[partition]
            assert (told.leader, told.leader_epoch) == (state["leader"], state["leader_epoch"])
    seen.admin.elect_leaders(timeout=WAIT_S)
    assert [seen.leader(name, p) for p in range(6)] == [replicas[0] for replicas in rotations()]
    assert sum(map(len, seen.consume(name, 180).values())) == 180


def test_controller_log_tells_what_an_id_stands_for_before_anything_else_bears_it(seen: Observer) -> None:
    controller = seen.controller()
    assert controller is not None
    dead = next(broker for broker in seen.cluster.brokers if broker != controller)
    seen.cluster.kill(dead)
    wait_until(lambda: f"a broker is dead broker={dead}" in seen.log(controller), WAIT_S)
    first: dict[str, str] = {}
    for broker in seen.cluster.brokers:
        for line in seen.log(broker).splitlines():
            found = re.search(r"cause=(\d+-\d+)", line)
            if found and "order obeyed" not in line:  # what a broker is told is explained in the controller's log
                first.setdefault(found.group(1), line)
    assert [line for cause, line in first.items() if f"controller event cause={cause}: " not in line] == []
