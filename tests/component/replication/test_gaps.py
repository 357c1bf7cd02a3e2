"""A leader whose log has gaps: followers and consumers go on behind them."""

from collections.abc import Callable

import pytest

from ottla.client.consuming.fetched import unpack
from ottla.wire.batch import build_gap, stamp
from ottla.wire.errors import CorruptMessage
from ottla.wire.messages import CONSUMER
from ottla.wire.names import NO_EPOCH, TopicPartition
from ottla.wire.records import RecordBatch, encode_batch
from ottla.wire.requests import FetchPart, FetchRequest, FetchResponse
from ottla.wire.rewriting import keep_records
from tests.component.replication.brokers import Cluster
from tests.support.logs import offsets_in, read_all
from tests.support.waiting import eventually

ONE = TopicPartition("one", 0)


def batch(base: int, kept: str) -> bytes:
    """A batch that once had a record for each letter; those of "." are gone."""
    encoded = encode_batch([letter.encode() for letter in kept], timestamps=0)
    stamp(encoded, 0, base, 0)
    return bytes(keep_records(RecordBatch(encoded), [letter != "." for letter in kept]))


def gap(base: int, behind: int) -> bytes:
    return bytes(build_gap(base, behind, 0))


def compact(cluster: Cluster, *batches: bytes) -> None:
    """The leader's log holds these and nothing else, as if it had been compacted."""
    log = cluster.leader.partition(ONE).log
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(memoryview(bytearray(b"".join(batches))))


def copied(cluster: Cluster) -> Callable[[], bool]:
    def are_equal() -> bool:
        ours, theirs = cluster.follower.partition(ONE), cluster.leader.partition(ONE)
        return ours.log.log_end_offset == theirs.log.log_end_offset == theirs.high_watermark == ours.high_watermark

    return are_equal


async def fetched(cluster: Cluster, offset: int, max_bytes: int = 1 << 20) -> bytes:
    request = FetchRequest(0, 1, max_bytes, [FetchPart(*ONE, offset, max_bytes, NO_EPOCH)], CONSUMER)
    answer = await cluster.leader.connect(-1).channel.send(request)
    assert isinstance(answer.message, FetchResponse)
    answer.message.parts[0].raise_if_failed()
    return bytes(answer.attachments[0])


COMPACTED = [gap(0, 3), batch(3, "a.b"), gap(6, 20), batch(20, ".c..")]


async def test_a_new_follower_copies_gaps_byte_for_byte_and_ends_where_its_leader_does(cluster: Cluster) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE)
    compact(cluster, *COMPACTED)
    await cluster.tell(cluster.follower, ONE)
    await eventually(copied(cluster))
    assert read_all(cluster.follower.partition(ONE).log) == b"".join(COMPACTED)
    assert cluster.follower.partition(ONE).high_watermark == 24, "though there is no record behind offset 21"
    cluster.leader.append(ONE)
    await eventually(copied(cluster))
    assert cluster.follower.partition(ONE).log.log_end_offset == 25


async def test_a_follower_that_stands_inside_a_gap_goes_on_behind_it(cluster: Cluster) -> None:
    await cluster.create(ONE)
    cluster.leader.append(ONE, batches=3)
    await eventually(copied(cluster))
    await cluster.stop(cluster.follower, ONE)
    compact(cluster, gap(0, 10), batch(10, "x"))
    await cluster.tell(cluster.follower, ONE)
    await eventually(copied(cluster))
    assert offsets_in(read_all(cluster.follower.partition(ONE).log)) == [0, 1, 2, 3, 10]


async def test_a_follower_begins_inside_the_batch_where_its_leader_begins(cluster: Cluster) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE)
    compact(cluster, batch(0, "abcd"), batch(4, "e"))
    cluster.leader.partition(ONE).log.delete_records_before(2)
    await cluster.tell(cluster.follower, ONE)
    await eventually(copied(cluster))
    log = cluster.follower.partition(ONE).log
    assert (log.log_start_offset, log.log_end_offset) == (2, 5)
    assert read_all(log, 2) == batch(0, "abcd") + batch(4, "e")


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
async def test_a_consumer_reads_from_any_offset_on_to_the_end(cluster: Cluster, max_bytes: int) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE)
    compact(cluster, *COMPACTED)
    await cluster.tell(cluster.follower, ONE)
    await eventually(copied(cluster))
    for start in range(24):
        position = start
        found: dict[int, bytes | None] = {}
        while position < 24:
            batches, error = unpack(ONE, memoryview(await fetched(cluster, position, max_bytes)), position, verify=True)
            assert error is None
            for each in batches:
                found |= {at: value for at, value in zip(each.offsets(), each.values(), strict=True) if at >= start}
            position = batches[-1].next_offset
        records = {3: b"a", 5: b"b", 21: b"c"}
        assert (found, position) == ({at: value for at, value in records.items() if at >= start}, 24)


async def test_a_leader_does_not_show_a_batch_whose_base_offset_lies(cluster: Cluster) -> None:
    await cluster.create(ONE)
    await cluster.stop(cluster.follower, ONE)
    compact(cluster, *[batch(offset, "ab") for offset in range(0, 200, 2)])
    log = cluster.leader.partition(ONE).log
    size = len(batch(0, "ab"))
    with (log.folder / f"{0:020d}.log").open("r+b") as file:
        file.seek(20 * size + 7)  # offset 40 seems to be 41
        file.write(b"\x29")
    with pytest.raises(CorruptMessage, match="where 40 was due"):
        log.read(40, 1000, up_to=200, at_least_one=True)
    batches, error = unpack(
        ONE, memoryview(b"".join(log.read(36, 1000, up_to=200, at_least_one=True))), 36, verify=True
    )
    assert [each.base_offset for each in batches] == [36, 38]
    assert getattr(error, "next_offset", None) == 42
    await cluster.tell(cluster.follower, ONE)
    await eventually(lambda: cluster.follower.line.named.count([ONE]) > 2)
    assert cluster.follower.partition(ONE).log.log_end_offset == 40, "what lies before it is taken"
    assert offsets_in(read_all(log, 42))[0] == 42, "what comes behind can be read"
