"""What sarama 1.22 does, in raw requests: no ApiVersions, records at once, and batches without a largest timestamp."""

import time

from ottla.chaos.fuzz.schemas import PRODUCE
from ottla.chaos.fuzz.stored import any_address, ask, describe
from ottla.client import Consumer
from ottla.wire.batch import MAGIC_KAFKA
from ottla.wire.records import encode_batch
from tests.compat.conftest import MakeTopic
from tests.support.lying_batches import changed

LIST_OFFSETS = 2


def test_a_megabyte_may_be_the_first_that_a_connection_says(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    brokers, (described,) = describe(any_address(bootstrap), [topic])
    leader = brokers[described.partitions[0].leader_id]
    now_ms = int(time.time() * 1000)
    times = [now_ms - 5_000, now_ms - 4_000]
    batch = encode_batch([b"a" * 1_000_000, b"small"], timestamps=times, magic=MAGIC_KAFKA)
    records = bytes(changed(batch, max_timestamp=-1))
    parts = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    for offset in (0, 2):
        told = ask(leader, PRODUCE, 3, {"acks": -1, "timeout_ms": 5_000, "topic_data": parts})
        (result,) = told.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (0, offset)
    for at_ms, offset in ((times[0], 0), (times[1], 1), (now_ms - 1_000, -1)):
        wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": at_ms}]}]
        told = ask(leader, LIST_OFFSETS, 1, {"replica_id": -1, "topics": wanted})
        assert told.topics[0].partitions[0].offset == offset
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        read = [next(iter(consumer)) for _ in range(4)]
    assert [(len(record.value or b""), record.timestamp) for record in read] == [
        (1_000_000, times[0]), (5, times[1]), (1_000_000, times[0]), (5, times[1])
    ]  # fmt: skip
