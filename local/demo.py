"""``make demo``: a short story on a real cluster. Starts it, writes, reads, kills the broker in mid-write, and checks all.

Ends with 0 if everything it claims was true.
"""

import sys
import threading
import time
from collections.abc import Iterator

from ottla.client import Admin, Consumer, Producer
from ottla.client.delivery import ManyDelivery
from ottla.client.records import FetchedBatch
from ottla.local.cluster import LocalCluster
from ottla.local.story import Story, rate
from ottla.wire.errors import OttlaError

RECORD_COUNT = 1_000_000
RECORD_SIZE = 100
CHUNK = 10_000
PARTITIONS = 3
KEYS = 30
WAIT_S = 60.0
STORM_S = 1.0
STORM_CHUNK = 500
STORM_AHEAD = 200
"""How many chunks of the storm may be on their way at once."""


def main() -> int:
    """Tell the story; the exit code says whether it was true."""
    story = Story()
    began = time.monotonic()
    story.chapter("A cluster starts")
    with LocalCluster(brokers=1) as cluster:
        story.say(f"a real ZooKeeper server  {cluster.zookeeper}  (process {cluster.zookeeper_servers.pid(0)})")
        story.say(f"a broker                 {cluster.bootstrap}  (process {cluster.pid(0)})")
        story.say(f"logs and data            {cluster.folder}")
        story.say(f"ready after {time.monotonic() - began:.1f} s")
        write_much(story, cluster)
        read_all(story, cluster)
        use_keys(story, cluster)
        survive_a_crash(story, cluster)
    story.chapter("The end" if not story.failed else "The end, but not everything was true: see above")
    story.say("All processes have ended and the data is gone. To have a cluster that stays:")
    for command in (
        "ottla up --detach",
        "ottla topic create hello -p 3",
        "echo world | ottla produce hello",
        "ottla consume hello -e",
        "ottla cluster info",
        "ottla down",
    ):
        story.command(command)
    return 1 if story.failed else 0


def write_much(story: Story, cluster: LocalCluster) -> None:
    """A million records, spread over the partitions."""
    story.chapter(f"{RECORD_COUNT:,} records of {RECORD_SIZE} bytes are written")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("numbers", partitions=PARTITIONS)
    story.say(f"topic numbers has {PARTITIONS} partitions: three logs that are written and read side by side")
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


def survive_a_crash(story: Story, cluster: LocalCluster) -> None:
    """kill -9 while records stream in: what was acknowledged is there after the restart."""
    story.chapter("The broker is killed (kill -9) while records stream in")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("storm", partitions=PARTITIONS)
    killed = threading.Event()

    def kill() -> None:
        cluster.kill(0)
        killed.set()

    killer = threading.Timer(STORM_S, kill)
    acked, sent_count = storm(cluster.bootstrap, killer, killed)
    killer.join()
    story.say(
        f"killed after {STORM_S:g} s: {sent_count:,} records were sent, {len(acked):,} of them acknowledged by then"
    )
    started = time.monotonic()
    cluster.start(0)
    story.say(f"started again; it checked its log and served after {time.monotonic() - started:.1f} s")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        stored = sum(admin.latest_offsets("storm").values())
    found: dict[tuple[int, int], bytes | None] = {}
    for batch in read_batches(cluster.bootstrap, "storm", stored):
        found.update(zip(((batch.partition, offset) for offset in batch.offsets()), batch.values(), strict=True))
    kept = sum(found.get(where) == value for where, value in acked.items())
    story.claim(
        len(acked) > 0 and kept == len(acked), f"all {kept:,} acknowledged records are where they were, unchanged"
    )
    if stored > len(acked):
        story.say(f"({stored - len(acked):,} more were written, but the crash came before their acknowledgement)")


def storm(bootstrap: str, killer: threading.Timer, killed: threading.Event) -> tuple[dict[tuple[int, int], bytes], int]:
    """Write until the broker is dead. Gives what was acknowledged, by partition and offset, and how many were sent."""
    pending: list[tuple[list[bytes], ManyDelivery]] = []
    number = 0
    producer = Producer(bootstrap_servers=bootstrap, acks="all", delivery_timeout_ms=1_000, max_block_ms=1_000)
    try:
        producer.partitions_for("storm", WAIT_S)
        killer.start()
        while not killed.is_set():
            values = [number_record(number + i) for i in range(STORM_CHUNK)]
            pending.append((values, producer.send_many("storm", values)))
            number += STORM_CHUNK
            if len(pending) > STORM_AHEAD:
                pending[-STORM_AHEAD][1].exception(WAIT_S)
    except OttlaError:
        killed.wait(WAIT_S)  # the producer gave up waiting for room: the broker is dead
    acked: dict[tuple[int, int], bytes] = {}
    for values, delivery in pending:
        if delivery.done() and delivery.exception(0) is None:
            for value, where in zip(values, delivery.result(0), strict=True):
                acked[where.partition, where.offset] = value
    try:
        producer.close(timeout=0)
    except OttlaError:
        pass  # what was on its way when the broker died
    return acked, number


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
