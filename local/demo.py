"""``make demo``: a short story on a real cluster. Three brokers, three copies; one is killed in mid-stream; nothing is lost.

It ends with a Spark job over what the cluster holds (spark_story).

Ends with 0 if everything it claims was true.
"""

import sys
import threading
import time
from collections.abc import Iterator

from ottla.client import Admin, Consumer, Producer
from ottla.client.records import FetchedBatch
from ottla.local.cluster import LocalCluster
from ottla.local.spark_story import watch_metrics
from ottla.local.story import Story, rate

RECORD_COUNT = 1_000_000
RECORD_SIZE = 100
CHUNK = 10_000
BROKERS = 3
PARTITIONS = 3
KEYS = 30
WAIT_S = 60.0
STORM_S = 1.0
STORM_CHUNK = 500


def main() -> int:
    """Tell the story; the exit code says whether it was true."""
    story = Story()
    began = time.monotonic()
    story.chapter("A cluster starts")
    with LocalCluster(brokers=BROKERS) as cluster:
        story.say(f"a real ZooKeeper server  {cluster.zookeeper}  (process {cluster.zookeeper_servers.pid(0)})")
        for broker in cluster.brokers:
            story.say(f"broker {broker}                 {cluster.address(broker)}  (process {cluster.pid(broker)})")
        story.say(f"logs and data            {cluster.folder}")
        story.say(f"ready after {time.monotonic() - began:.1f} s")
        write_much(story, cluster)
        read_all(story, cluster)
        use_keys(story, cluster)
        survive_a_killed_leader(story, cluster)
        watch_metrics(story, cluster)
    story.chapter("The end" if not story.failed else "The end, but not everything was true: see above")
    story.say("All processes have ended and the data is gone. To have a cluster that stays:")
    for command in (
        "ottla up --detach",
        "ottla topic create hello -p 3",
        "echo world | ottla produce hello",
        "ottla consume hello -e",
        "ottla cluster info",
        "ottla spark list",
        "ottla down",
    ):
        story.command(command)
    return 1 if story.failed else 0


def write_much(story: Story, cluster: LocalCluster) -> None:
    """A million records, spread over the partitions."""
    story.chapter(f"{RECORD_COUNT:,} records of {RECORD_SIZE} bytes are written")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("numbers", partitions=PARTITIONS, replication_factor=BROKERS)
    story.say(f"topic numbers has {PARTITIONS} partitions, each on all {BROKERS} brokers: one leads, two copy it")
    values = [number_record(number) for number in range(RECORD_COUNT)]
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        producer.partitions_for("numbers", WAIT_S)
        started = time.monotonic()
        sent = [producer.send_many("numbers", values[i : i + CHUNK]) for i in range(0, RECORD_COUNT, CHUNK)]
        acknowledged = sum(len(delivery.result(WAIT_S)) for delivery in sent)
        took = time.monotonic() - started
    story.claim(acknowledged == RECORD_COUNT, f"wrote {rate(acknowledged, RECORD_SIZE, took)}, all acknowledged")


def read_all(story: Story, cluster: LocalCluster) -> None:
    """All of them back: each once, whole, and in order within its partition."""
    story.chapter("They are read back and checked one by one")
    seen = bytearray(RECORD_COUNT)
    in_order = contiguous = whole = True
    count, last, next_offset = 0, [-1] * PARTITIONS, [0] * PARTITIONS
    started = time.monotonic()
    for batch in read_batches(cluster.bootstrap, "numbers", RECORD_COUNT):
        where = batch.partition
        values = batch.values()
        numbers = [int(value[:12]) for value in values if value is not None]
        whole = whole and values == [number_record(number) for number in numbers]
        in_order = in_order and last[where] < numbers[0] and numbers == sorted(numbers)
        contiguous = contiguous and batch.base_offset == next_offset[where]
        last[where], next_offset[where] = numbers[-1], batch.next_offset
        for number in numbers:
            seen[number] += 1
        count += len(batch)
    took = time.monotonic() - started
    story.claim(count == RECORD_COUNT, f"read and checked {rate(count, RECORD_SIZE, took)}")
    story.claim(seen == b"\1" * RECORD_COUNT, "every record came exactly once")
    story.claim(whole, "every record has the bytes that were written")
    story.claim(in_order and contiguous, "each partition is in order, its offsets without a gap")


def use_keys(story: Story, cluster: LocalCluster) -> None:
    """Records with the same key go to the same partition, so they stay in order."""
    story.chapter("Records with keys stay together")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("visits", partitions=PARTITIONS)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for visit in range(10):
            for user in range(KEYS):
                producer.send("visits", f"visit {visit}".encode(), key=f"user-{user}".encode())
        producer.flush(WAIT_S)
    places: dict[bytes, set[int]] = {}
    visits: dict[bytes, list[bytes]] = {}
    for batch in read_batches(cluster.bootstrap, "visits", 10 * KEYS):
        for key, value in zip(batch.keys(), batch.values(), strict=True):
            assert key is not None
            assert value is not None
            places.setdefault(key, set()).add(batch.partition)
            visits.setdefault(key, []).append(value)
    together = len(places) == KEYS and all(len(partitions) == 1 for partitions in places.values())
    expected = [f"visit {visit}".encode() for visit in range(10)]
    story.claim(together, f"{KEYS} users, 10 visits each: every user is in one partition")
    story.claim(all(told == expected for told in visits.values()), "and every user's visits are in order")


def survive_a_killed_leader(story: Story, cluster: LocalCluster) -> None:
    """kill -9 of a leader while records stream in: another broker goes on, and what was acknowledged is there."""
    story.chapter("A leader is killed (kill -9) while records stream in")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("storm", PARTITIONS, replication_factor=BROKERS, config={"min.insync.replicas": "2"})
        leader = admin.describe_topic("storm").partitions[0].leader
        story.say(f"topic storm has {BROKERS} copies of each partition; broker {leader} leads partition 0")
        killer = threading.Timer(STORM_S, cluster.kill, [leader])
        killer.start()
        acked, longest_s = storm(cluster.bootstrap, 2 * STORM_S)
        killer.join()
        successor = admin.describe_topic("storm").partitions[0].leader
        story.claim(
            successor != leader, f"killed broker {leader} in the middle: broker {successor} leads partition 0 now"
        )
        story.claim(
            longest_s < WAIT_S, f"the longest that a write had to wait for its acknowledgement: {longest_s:.2f} s"
        )
        stored = sum(admin.latest_offsets("storm").values())
    found: dict[tuple[int, int], bytes | None] = {}
    for batch in read_batches(cluster.bootstrap, "storm", stored):
        found.update(zip(((batch.partition, offset) for offset in batch.offsets()), batch.values(), strict=True))
    kept = sum(found.get(where) == value for where, value in acked.items())
    story.claim(len(acked) > 0 and kept == len(acked), f"all {kept:,} acknowledged records are where they were")
    story.claim(len(found) == len(set(found.values())), "and none is there twice, though the producer sent some again")
    started = time.monotonic()
    cluster.start(leader)
    story.claim(
        in_sync_again(cluster.bootstrap), f"broker {leader} came back, copied what it had missed and is in sync"
    )
    story.say(f"that took {time.monotonic() - started:.1f} s")


def storm(bootstrap: str, seconds: float) -> tuple[dict[tuple[int, int], bytes], float]:
    """Write for a while, a chunk at a time. Gives what was acknowledged, by partition and offset, and the longest wait."""
    acked: dict[tuple[int, int], bytes] = {}
    number, longest_s = 0, 0.0
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        ends = time.monotonic() + seconds
        while (began := time.monotonic()) < ends:
            values = [number_record(number + i) for i in range(STORM_CHUNK)]
            for value, where in zip(values, producer.send_many("storm", values).result(WAIT_S), strict=True):
                acked[where.partition, where.offset] = value
            number += STORM_CHUNK
            longest_s = max(longest_s, time.monotonic() - began)
    return acked, longest_s


def in_sync_again(bootstrap: str) -> bool:
    """Wait until every partition of the storm has all its copies in sync."""
    deadline = time.monotonic() + WAIT_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while any(len(partition.isr) < BROKERS for partition in admin.describe_topic("storm").partitions):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
    return True


def read_batches(bootstrap: str, topic: str, count: int) -> Iterator[FetchedBatch]:
    """The first ``count`` records of a topic, as batches; fewer if no more come in time."""
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while count > 0:
            batches = consumer.poll_batches(timeout=5.0)
            if not batches:
                return
            for batch in batches:
                yield batch
                count -= len(batch)


def number_record(number: int) -> bytes:
    """A record of RECORD_SIZE bytes that names itself."""
    return b"%012d" % number + b"." * (RECORD_SIZE - 12)


if __name__ == "__main__":
    sys.exit(main())
