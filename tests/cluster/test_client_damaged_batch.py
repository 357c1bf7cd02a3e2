"""A batch that is damaged on the broker's disk: a consumer says so until the application seeks past it."""

import time
from pathlib import Path

import pytest

from ottla.client import AsyncConsumer, Consumer, Record
from ottla.local import LocalCluster
from ottla.wire.batch import HEADER_SIZE, read_fields
from ottla.wire.errors import UnreadableRecords
from tests.support.client_topics import WAIT_S, MakeTopic, offsets, write

pytestmark = pytest.mark.cluster

POLL_S = 0.2
ATTEMPTS = 5


def flip_a_bit(cluster: LocalCluster, topic: str, offset: int) -> None:
    """In the payload of the batch of partition 0 that begins at ``offset``."""
    (path,) = Path(cluster.folder).glob(f"**/{topic}-0/{0:020}.log")
    with path.open("r+b") as file:
        data, position = file.read(), 0
        while read_fields(memoryview(data)[position:]).base_offset != offset:
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        position += HEADER_SIZE + 3
        file.seek(position)
        file.write(bytes([data[position] ^ 0x10]))


@pytest.fixture
def damaged(cluster1: LocalCluster, make_filled_topic: MakeTopic) -> str:
    """Two partitions of 30 records each, in batches of 10; the second batch of partition 0 is damaged."""
    topic = make_filled_topic(records=30, partitions=2)
    flip_a_bit(cluster1, topic, 10)
    return topic


def check(error: UnreadableRecords, topic: str) -> None:
    assert (error.topic, error.partition, error.offset, error.next_offset) == (topic, 0, 10, 20)
    assert "seek to 20" in str(error)
    assert f"{topic}-0, offset 10" in str(error)


def test_poll_raises_at_a_damaged_batch_until_the_application_seeks_past_it(bootstrap: str, damaged: str) -> None:
    """Before: poll returned nothing and raised nothing, for ever."""
    read: list[Record] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", retry_backoff_max_ms=100) as consumer:
        consumer.assign([(damaged, 0), (damaged, 1)])
        failed = 0
        deadline = time.monotonic() + WAIT_S
        while len(read) < 40 or failed < ATTEMPTS:
            assert time.monotonic() < deadline, (len(read), failed)
            try:
                records = consumer.poll(POLL_S)
                assert records or not failed, "a poll without records says why"
                read += records
            except UnreadableRecords as error:
                check(error, damaged)
                failed += 1
        assert sorted(offsets(read)) == sorted([*range(10), *range(30)]), "all before it, and the other partition"
        # Where others have records to give, poll raises once for every attempt to read the batch that fails.
        write(bootstrap, damaged, range(30, 40), 1)
        while True:
            try:
                more = consumer.poll(WAIT_S)
                break
            except UnreadableRecords:
                assert time.monotonic() < deadline
        assert more[0].partition == 1
        consumer.seek(damaged, 0, 20)
        behind: list[Record] = []
        while len(behind) < 10:
            behind += [record for record in consumer.poll(WAIT_S) if record.partition == 0]
        assert offsets(behind) == list(range(20, 30))


async def test_asyncio_poll_raises_at_a_damaged_batch_until_the_application_seeks_past_it(
    bootstrap: str, damaged: str
) -> None:
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", retry_backoff_max_ms=100
    ) as consumer:
        await consumer.assign([(damaged, 0)])
        assert offsets(await consumer.poll(WAIT_S)) == list(range(10))
        for _ in range(ATTEMPTS):
            with pytest.raises(UnreadableRecords) as caught:
                await consumer.poll(POLL_S)
            check(caught.value, damaged)
        with pytest.raises(UnreadableRecords):
            async for _ in consumer:
                pass
        await consumer.seek(damaged, 0, 20)
        assert offsets(await consumer.poll(WAIT_S)) == list(range(20, 30))
