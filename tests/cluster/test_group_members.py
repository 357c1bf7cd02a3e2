"""Members of groups in awkward moments: what was lost comes back, commits are late, topics come later, listeners raise."""

import asyncio
import re
import signal
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.groups.new_groups import GROUPS_OF_A_CONNECTION
from ottla.client import Admin, AsyncAdmin, AsyncConsumer, Consumer, Producer, TopicPartition
from ottla.local import LocalCluster
from ottla.wire.errors import IllegalGeneration, NonEmptyGroup, NotCoordinator, OttlaError, UnknownMemberId
from ottla.wire.groups import ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest
from tests.support.cluster import wait_until
from tests.support.machine import scaled
from tests.support.raw_member import RawMember
from tests.support.waiting import eventually
from tests.support.workload import HASTY
from tests.support.znodes import make_znode, read_znode

pytestmark = pytest.mark.cluster

CLUSTER = {"brokers": 1, "broker_config": HASTY}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster: LocalCluster, name: str) -> str:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    return name


def make_consumer(cluster: LocalCluster, group: str, **options: Any) -> Consumer:
    settings: dict[str, Any] = {"session_timeout_ms": 5000, "heartbeat_interval_ms": 200, **options}
    settings.setdefault("auto_offset_reset", "earliest")
    return Consumer(bootstrap_servers=cluster.bootstrap, group_id=group, **settings)


def fill(cluster: LocalCluster, topic: str, count: int, partition: int = 0) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)


def read(consumer: Consumer, enough: Callable[[list[int]], bool], timeout_s: float = 20.0) -> list[int]:
    """Poll until the offsets that were read are enough."""
    found: list[int] = []
    deadline = time.monotonic() + timeout_s
    while not enough(found):
        assert time.monotonic() < deadline, found
        found += [record.offset for record in consumer.poll(0.05)]
    return found


def as_member(cluster: LocalCluster, consumer: Consumer, group: str) -> RawMember:
    """Somebody who speaks in this member's name."""
    assert consumer._twin._group is not None
    member = consumer._twin._group.member
    other = RawMember(cluster, group)
    other.member_id, other.generation = member.member_id, member.generation
    return other


def kick_out(cluster: LocalCluster, consumer: Consumer, group: str) -> None:
    """The group goes on without this member, which does not know."""
    other = as_member(cluster, consumer, group)
    other.leave()
    other.close()


def fail_first_commit(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Its coordinator is another one when it commits first; told when that is, and once it may go on."""
    assert consumer._twin._group is not None
    coordinator = consumer._twin._group.member.commits._coordinator
    ask = coordinator.ask
    first, go_on = threading.Event(), threading.Event()

    async def fail_first(request: object, *rest: object) -> object:
        if isinstance(request, OffsetCommitRequest) and not first.is_set():
            first.set()
            await asyncio.to_thread(go_on.wait, 20)
            raise NotCoordinator("it has just changed")
        return await ask(request, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(coordinator, "ask", fail_first)
    return first, go_on


def test_partitions_that_were_lost_and_came_back_before_the_next_poll_are_read(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    fill(cluster, topic, 10)
    with make_consumer(cluster, group) as consumer:
        consumer.subscribe([topic])
        read(consumer, lambda found: len(found) == 10)
        consumer.commit()
        generation = consumer.generation
        kick_out(cluster, consumer, group)
        wait_until(lambda: consumer.generation > generation and len(consumer.assignment()) == 2)  # nobody polls
        fill(cluster, topic, 10)
        assert read(consumer, lambda found: len(found) >= 10) == list(range(10, 20))
        assert len(consumer.assignment()) == 2


def test_commits_that_nobody_waits_for_are_all_committed(cluster: LocalCluster, group: str, topic: str) -> None:
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with make_consumer(cluster, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: not consumer.poll(0.05) and len(consumer.assignment()) == 2)
        for number in range(1, 20):
            consumer.commit_async({t0: number})
        consumer.commit_async({t1: 3})
    assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/0").data == b"19"
    assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/1").data == b"3"


def test_topic_that_is_made_later_is_read(cluster: LocalCluster, group: str, name: str) -> None:
    with make_consumer(cluster, group) as consumer, Admin(bootstrap_servers=cluster.bootstrap) as admin:
        consumer.subscribe([name])
        wait_until(lambda: not consumer.poll(0.05) and consumer.generation > 0)
        admin.create_topic(name, partitions=1)
        fill(cluster, name, 1)
        assert read(consumer, lambda found: len(found) == 1) == [0]


def test_consumer_whose_listener_raises_is_closed_all_the_same(cluster: LocalCluster, group: str, topic: str) -> None:
    class Listener:
        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            raise ValueError("no")

    consumer = make_consumer(cluster, group)
    consumer.subscribe([topic], listener=Listener())
    wait_until(lambda: not consumer.poll(0.05) and len(consumer.assignment()) == 2)
    with pytest.raises(ValueError, match="no"):
        consumer.close()
    consumer.close()
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: not admin.describe_group(group).members, scaled(3))


async def test_async_consumer_whose_listener_raises_is_closed_all_the_same(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    class Listener:
        async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            raise ValueError("no")

    consumer = AsyncConsumer(bootstrap_servers=cluster.bootstrap, group_id=group)
    await consumer.subscribe([topic], listener=Listener())
    while not await consumer.assignment():
        await consumer.poll(0.05)
    with pytest.raises(ValueError, match="no"):
        await consumer.close()
    assert consumer._closed


def test_member_that_does_not_hand_over_in_time_leaves_and_the_others_do_not_wait_for_its_session(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    settings: dict[str, Any] = {"max_poll_interval_ms": 1500, "session_timeout_ms": 60_000}
    with make_consumer(cluster, group, **settings) as stands_still, make_consumer(cluster, group) as other:
        stands_still.subscribe([topic])
        wait_until(lambda: not stands_still.poll(0.05) and len(stands_still.assignment()) == 2)
        other.subscribe([topic])  # so the first must hand one over, and polls no more
        wait_until(lambda: not other.poll(0.05) and len(other.assignment()) == 2)


async def test_a_poll_that_is_cancelled_in_a_hand_over_hands_nothing_over_and_the_next_one_does(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    begun = ended = 0

    class Listener:
        async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            nonlocal begun, ended
            begun += 1
            if begun == 1:
                await asyncio.Event().wait()
            ended += 1

    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": group, "heartbeat_interval_ms": 200}
    async with AsyncConsumer(**settings) as first, AsyncConsumer(**settings) as second:
        await first.subscribe([topic], listener=Listener())
        while len(await first.assignment()) < 2:
            await first.poll(0.05)
        await second.subscribe([topic])
        polling = asyncio.ensure_future(first.poll(20))
        await eventually(lambda: begun == 1, scaled(20))
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        assert len(await first.assignment()) == 2
        async with asyncio.timeout(scaled(20)):
            while not await second.assignment():
                await asyncio.gather(first.poll(0.05), second.poll(0.05))
        assert (begun, ended) == (2, 1)


async def test_a_close_that_is_cancelled_leaves_no_living_member_and_the_next_one_does_the_rest(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    fill(cluster, topic, 3)
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "session_timeout_ms": 60_000}
    consumer = AsyncConsumer(topic, bootstrap_servers=cluster.bootstrap, group_id=group, **settings)
    while not await consumer.poll(0.05):
        pass
    before = asyncio.all_tasks()
    cluster.pause(0)  # the coordinator does not answer
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.3)
        await asyncio.sleep(0.1)  # those that were cancelled end
        assert not [task for task in before if "member" in task.get_name() and not task.done()]
    finally:
        cluster.resume(0)
    await asyncio.gather(consumer.close(), consumer.close())
    async with AsyncAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        assert not (await admin.describe_group(group)).members
        assert {one.offset for one in (await admin.group_offsets(group)).values()} >= {3}


def test_a_close_that_is_interrupted_is_done_though_nobody_waits_for_it(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    fill(cluster, topic, 3)
    consumer = make_consumer(cluster, group, session_timeout_ms=60_000)
    consumer.subscribe([topic])
    read(consumer, lambda found: len(found) == 3)
    cluster.pause(0)
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.close()
    finally:
        cluster.resume(0)
        timer.join()
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        wait_until(lambda: not admin.describe_group(group).members)
    consumer.close()


def test_member_that_was_left_behind_commits_nothing_though_the_group_is_empty_by_then(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    fill(cluster, topic, 10)
    settings: dict[str, Any] = {"enable_auto_commit": False, "max_poll_interval_ms": 1000, "heartbeat_interval_ms": 100}
    with make_consumer(cluster, group, **settings) as slow:
        slow.subscribe([topic])
        read(slow, lambda found: len(found) == 10)
        wait_until(lambda: slow.generation == -1)  # it has not polled for too long
        with make_consumer(cluster, group, enable_auto_commit=False) as other:
            other.subscribe([topic])
            read(other, lambda found: len(found) == 10)
            other.commit()
        with pytest.raises((UnknownMemberId, IllegalGeneration)):
            slow.commit({TopicPartition(topic, 0): 3})
    assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/0").data == b"10"


def test_commit_that_is_tried_again_is_not_made_in_a_later_generation(
    cluster: LocalCluster, group: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partition was another member's in between, which has come further."""
    t0 = TopicPartition(topic, 0)
    with make_consumer(cluster, group, enable_auto_commit=False) as slow:
        slow.subscribe([topic])
        wait_until(lambda: not slow.poll(0.05) and len(slow.assignment()) == 2)
        first, go_on = fail_first_commit(slow, monkeypatch)
        failed: list[OttlaError] = []

        def commit() -> None:
            try:
                slow.commit({t0: 3}, timeout=20)
            except OttlaError as error:
                failed.append(error)

        committing = threading.Thread(target=commit)
        committing.start()
        assert first.wait(scaled(10))
        kick_out(cluster, slow, group)
        with make_consumer(cluster, group, enable_auto_commit=False) as other:
            other.subscribe([topic])
            wait_until(lambda: not other.poll(0.05) and not slow.poll(0.05) and len(other.assignment()) == 1)
            wait_until(lambda: not other.poll(0.05) and not slow.poll(0.05) and len(slow.assignment()) == 1)
            if t0 in other.assignment():
                other.commit({t0: 9})
            else:  # this member has it again
                RawMember.commit(as_member(cluster, slow, group), {t0: 9})
            go_on.set()
            committing.join(20)
        assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/0").data == b"9"
        assert failed


def test_commit_that_is_tried_again_does_not_undo_a_later_one(
    cluster: LocalCluster, group: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t0 = TopicPartition(topic, 0)
    with make_consumer(cluster, group, enable_auto_commit=False, retry_backoff_ms=500) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: not consumer.poll(0.05) and len(consumer.assignment()) == 2)
        first, go_on = fail_first_commit(consumer, monkeypatch)
        consumer.commit_async({t0: 3})
        assert first.wait(scaled(10))
        go_on.set()
        consumer.commit({t0: 9})
        assert consumer._twin._group is not None
        running = consumer._twin._group.member._committing
        assert running is not None
        wait_until(running.done)
    assert read_znode(cluster, f"/consumers/{group}/offsets/{topic}/0").data == b"9"


def test_first_join_of_a_group_is_not_refused_because_somebody_looks_for_the_group(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    for number in range(20):
        name = f"{group}-{number}"
        looks, joins = RawMember(cluster, name), RawMember(cluster, name, instance="i")
        try:
            looks.client.greet()
            joins.client.greet()
            looking = threading.Thread(target=looks.committed)
            looking.start()
            joins.join()
            looking.join()
        finally:
            looks.close()
            joins.close()


def test_group_that_cannot_be_read_does_not_keep_others_from_being_listed(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    one = RawMember(cluster, group)
    try:
        one.join_alone([(topic, 0)])
        make_znode(cluster, f"/consumers/{group}-bad", b"garbage")
        listed = one.ask(ListGroupsRequest([]), ListGroupsResponse)
        listed.raise_if_failed()
        assert group in [each.group_id for each in listed.groups]
    finally:
        one.close()


def test_topic_that_was_made_anew_is_read_from_its_beginning(cluster: LocalCluster, group: str, topic: str) -> None:
    fill(cluster, topic, 10)
    with make_consumer(cluster, group) as consumer:
        consumer.subscribe([topic])
        read(consumer, lambda found: len(found) == 10)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=2)
    fill(cluster, topic, 20)
    with make_consumer(cluster, group) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, lambda found: bool(found) and found[-1] == 19) == list(range(20))


# --- loops -----------------------------------------------------------------------------------------------------------------


def test_loop_gives_no_more_records_of_a_partition_that_was_lost(cluster: LocalCluster, topic: str, group: str) -> None:
    """In the middle of a batch: what comes next is what this member reads once it has the partition again."""
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send_many(topic, [b"x"] * 1000, partition=0).result(scaled(10))
    lost: list[int] = []

    class Listener:
        def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
            lost.append(len(partitions))

    with make_consumer(cluster, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], listener=Listener())
        assert consumer._twin._group is not None
        steps = consumer._twin._group.steps
        seen: list[int] = []
        for record in consumer:
            seen.append(record.offset)
            if seen[-2:] == [9, 10]:
                kick_out(cluster, consumer, group)
                wait_until(lambda: steps.next is not None, scaled(20))  # it has heard of it
            if len(seen) == 13:
                break
    assert seen == [*range(11), 0, 1]
    assert lost == [2]


def test_loop_over_a_large_batch_lets_partitions_go_after_as_many_records_as_a_poll_gives(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for partition in range(2):
            producer.send_many(topic, [b"x"] * 5000, partition=partition).result(scaled(10))
    seen: list[int] = []
    revoked_after: list[int] = []

    class Listener:
        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            revoked_after.append(len(seen))

    options: dict[str, Any] = {"partition_assignment_strategy": "range", "max_poll_records": 100}
    with make_consumer(cluster, group, **options) as consumer, make_consumer(cluster, group, **options) as other:
        consumer.subscribe([topic], listener=Listener())
        assert consumer._twin._group is not None
        steps = consumer._twin._group.steps
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 150:
                other.subscribe([topic])
                wait_until(lambda: steps.holds_up, scaled(20))
            if revoked_after:
                break
        assert revoked_after == [200]


# --- peace -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [False, True], ids=["by name", "by pattern"])
def test_member_that_has_nothing_to_do_asks_nobody_but_its_coordinator(
    cluster: LocalCluster, topic: str, group: str, pattern: bool
) -> None:
    with make_consumer(cluster, group, heartbeat_interval_ms=1500) as consumer:
        if pattern:
            consumer.subscribe(pattern=f"^{topic}$")
        else:
            consumer.subscribe([topic])
        read(consumer, lambda _: len(consumer.assignment()) == 2)
        fill(cluster, topic, 1)
        read(consumer, lambda found: len(found) == 1)
        before = handled(cluster)
        wait_until(lambda: handled(cluster)["HEARTBEAT"] >= before["HEARTBEAT"] + 3, scaled(20))
        assert handled(cluster)["METADATA"] == before["METADATA"]


def handled(cluster: LocalCluster) -> dict[str, int]:
    """How many requests of each kind the broker has handled."""
    with urllib.request.urlopen(f"{cluster.admin_url(0)}/metrics", timeout=10) as answer:
        found = re.findall(r'^ottla_requests_total{api="(\w+)"} (\S+)', answer.read().decode(), re.MULTILINE)
    return {name: int(float(count)) for name, count in found}


def test_groups_that_exist_do_not_count_as_new_when_their_coordinator_has_been_restarted(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    names = [f"{group}-{number}" for number in range(GROUPS_OF_A_CONNECTION + 20)]
    where = TopicPartition(topic, 0)
    for some in (names[:60], names[60:]):
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            for name in some:
                admin.alter_group_offsets(name, {where: 0})
    cluster.kill(0)
    cluster.start(0)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for name in names:
            admin.alter_group_offsets(name, {where: 0})


def test_who_moves_a_group_that_has_members_is_told_so_and_how_many(
    cluster: LocalCluster, group: str, topic: str
) -> None:
    with make_consumer(cluster, group) as consumer, Admin(bootstrap_servers=cluster.bootstrap) as admin:
        consumer.subscribe([topic])
        wait_until(lambda: not consumer.poll(0.05) and len(consumer.assignment()) == 2)
        with pytest.raises(NonEmptyGroup, match=f"group '{group}' has 1 member"):
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
