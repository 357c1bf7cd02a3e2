"""Fetches of consumers whose partitions are kept: what is answered, when, in which order, and what all that costs."""

import random
from collections.abc import Sequence

import pytest

from ottla.wire.errors import (
    FetchSessionIdNotFound,
    InconsistentTopicId,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    UnknownTopicOrPartition,
)
from ottla.wire.requests import FetchDrop, FetchPart, FetchPartResult, FetchRequest, FetchResponse
from tests.component.api.served import (
    HERE,
    THERE,
    Asked,
    Peer,
    Served,
    append,
    batch_of,
    error_of,
    message_of,
    with_partitions,
)
from tests.support.waiting import eventually

MUCH = 1 << 20
LONG_MS = 60_000


class Reader:
    """A consumer over one connection, as far as the broker sees it."""

    def __init__(self, served: Served, *, min_bytes: int = 1, max_bytes: int = MUCH) -> None:
        self.served = served
        self.peer = Peer()
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes

    def begin(self, *parts: FetchPart, wait_ms: int = 0) -> Asked:
        request = FetchRequest(wait_ms, self.min_bytes, self.max_bytes, list(parts), keep=True)
        return self.served.ask(request, peer=self.peer)

    def fetch(self, *parts: FetchPart, dropped: Sequence[int] = (), wait_ms: int = LONG_MS) -> Asked:
        drops = tuple(FetchDrop("t", partition) for partition in dropped)
        request = FetchRequest(wait_ms, self.min_bytes, self.max_bytes, list(parts), since_last=True, dropped=drops)
        return self.served.ask(request, peer=self.peer)


def at(partition: int, offset: int, max_bytes: int = MUCH, epoch: int = -1, topic_id: str = "") -> FetchPart:
    return FetchPart("t", partition, offset, max_bytes, epoch, topic_id=topic_id)


def parts_of(asked: Asked) -> list[FetchPartResult]:
    response = message_of(asked, FetchResponse)
    assert response.kept
    return response.parts


def told(asked: Asked) -> list[int]:
    """The partitions that an answer speaks of."""
    return [part.partition for part in parts_of(asked)]


# --- what is kept ------------------------------------------------------------------------------------------------------------


async def test_what_was_named_once_stands_until_it_is_answered(served: Served) -> None:
    await with_partitions(served, 3)
    reader = Reader(served)
    assert told(reader.begin(at(0, 0), at(1, 0), at(2, 0))) == []
    asked = reader.fetch()
    assert asked.waits
    append(served, 1)
    assert told(asked) == [1]
    asked = reader.fetch()
    append(served, 1)
    assert asked.waits, "where the reader is in it, it has not said yet"
    append(served, 2)
    assert told(asked) == [2]
    assert told(reader.fetch(at(1, 1))) == [1]


async def test_what_is_dropped_is_told_no_more(served: Served) -> None:
    await with_partitions(served, 2)
    reader = Reader(served)
    reader.begin(at(0, 0), at(1, 0))
    asked = reader.fetch(dropped=[0, 7])
    append(served, 0)
    assert asked.waits
    append(served, 1)
    assert told(asked) == [1]
    assert served.consumers.kept == 1


async def test_nothing_is_kept_for_who_did_not_ask_for_it(served: Served) -> None:
    await with_partitions(served, 1)
    asked = served.ask(FetchRequest(0, 1, MUCH, [at(0, 0)]))
    assert not message_of(asked, FetchResponse).kept
    with pytest.raises(FetchSessionIdNotFound):
        message_of(Reader(served).fetch(), FetchResponse)


async def test_who_begins_anew_is_told_only_of_what_it_names_now(served: Served) -> None:
    await with_partitions(served, 2)
    reader = Reader(served)
    reader.begin(at(0, 0), at(1, 0))
    before = reader.fetch()
    reader.begin(at(1, 0))
    assert told(before) == [], "answers come in order: that one must not be in the way"
    asked = reader.fetch()
    append(served, 0)
    assert asked.waits


async def test_connection_that_ends_leaves_nothing_behind(served: Served) -> None:
    await with_partitions(served, 3)
    reader = Reader(served)
    reader.begin(at(0, 0), at(1, 0), at(2, 0))
    reader.fetch()
    served.consumers.end(reader.peer)
    assert (len(served.consumers), served.consumers.kept, served.purgatories.fetch.size) == (0, 0, 0)
    append(served, 0)


async def test_who_finds_no_room_is_answered_all_the_same_and_names_everything_each_time(served: Served) -> None:
    await with_partitions(served, 3)
    served.consumers.kept_max = 2
    append(served, 2)
    reader = Reader(served)
    response = message_of(reader.begin(at(0, 0), at(1, 0), at(2, 0)), FetchResponse)
    assert not response.kept
    assert [part.size > 0 for part in response.parts] == [False, False, True]
    reader.begin(at(0, 0), at(1, 0))
    with pytest.raises(FetchSessionIdNotFound):
        message_of(reader.fetch(at(2, 0)), FetchResponse)
    assert served.consumers.kept == 0


# --- when it is answered -----------------------------------------------------------------------------------------------------


async def test_another_fetch_ends_the_wait_of_the_one_before(served: Served) -> None:
    await with_partitions(served, 2)
    append(served, 1)
    reader = Reader(served)
    reader.begin(at(0, 0))
    first = reader.fetch()
    second = reader.fetch(at(1, 0))
    assert told(first) == []
    assert told(second) == [1]


async def test_time_that_is_over_brings_what_there_is(served: Served) -> None:
    await with_partitions(served, 2)
    reader = Reader(served, min_bytes=MUCH)
    reader.begin(at(0, 0), at(1, 0))
    asked = reader.fetch(wait_ms=20)
    append(served, 1)
    assert asked.waits
    await eventually(lambda: not asked.waits)
    assert told(asked) == [1]
    asked = reader.fetch(at(1, 1), wait_ms=2)
    await eventually(lambda: not asked.waits)
    assert told(asked) == []


@pytest.mark.parametrize("backlog", [0, 1])
async def test_fetch_waits_until_all_partitions_together_have_what_it_wants(served: Served, backlog: int) -> None:
    await with_partitions(served, 4)
    size = append(served, 3, backlog or 1)
    reader = Reader(served, min_bytes=3 * size)
    reader.begin()
    asked = reader.fetch(at(0, 0), at(1, 0), at(2, 0), at(3, 1 - backlog))
    for partition in range(3 - backlog):
        assert asked.waits, partition
        append(served, partition)
    assert sum(part.size for part in parts_of(asked)) == 3 * size


async def test_wish_for_more_than_an_answer_may_have_is_not_waited_for(served: Served) -> None:
    await with_partitions(served, 1)
    reader = Reader(served, min_bytes=10 * MUCH, max_bytes=1500)
    reader.begin(at(0, 0))
    asked = reader.fetch()
    append(served, 0, 2)
    assert told(asked) == [0]


async def test_peer_that_does_not_read_is_read_for_only_when_it_does(served: Served) -> None:
    await with_partitions(served, 1)
    reader = Reader(served)
    reader.begin(at(0, 0))
    asked = reader.fetch()
    reader.peer.stalled = True
    append(served, 0)
    assert asked.waits, "its answer would only take memory"
    reader.peer.stalled = False
    served.turn.begin()
    assert asked._later is not None
    asked._later.try_again()
    served.turn.end()
    assert told(asked) == [0]


async def test_time_that_is_over_brings_no_records_to_a_peer_that_does_not_read(served: Served) -> None:
    await with_partitions(served, 1)
    reader = Reader(served)
    reader.begin(at(0, 0))
    asked = reader.fetch(wait_ms=20)
    reader.peer.stalled = True
    append(served, 0)
    await eventually(lambda: not asked.waits)
    assert told(asked) == []
    reader.peer.stalled = False
    assert told(reader.fetch()) == [0], "nothing is lost by that"


async def test_what_is_not_committed_is_no_news(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    reader = Reader(served)
    reader.begin(at(0, 0))
    asked = reader.fetch()
    append(served, 0)
    assert asked.waits
    served.turn.begin()
    served.partition().fetched_by(THERE, 7, at(0, 1, epoch=0), 1.0)
    served.turn.end()
    assert told(asked) == [0]


# --- what cannot be read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (at(9, 0), UnknownTopicOrPartition),
        (at(1, -1), OffsetOutOfRange),
        (at(1, 5), OffsetOutOfRange),
        (at(1, 0, topic_id="id-of-the-one-before"), InconsistentTopicId),
    ],
)
async def test_part_that_cannot_be_read_is_told_at_once_and_once(
    served: Served, part: FetchPart, error: type[OttlaError]
) -> None:
    await with_partitions(served, 2)
    append(served, 1)
    reader = Reader(served, min_bytes=MUCH)
    reader.begin(at(0, 0))
    (result,) = parts_of(reader.fetch(part))
    assert error_of(result) is error
    assert reader.fetch().waits


async def test_change_of_leader_is_told_at_once_with_who_leads_now(served: Served) -> None:
    await with_partitions(served, 1)
    await served.decide(partition=1, replicas=(HERE, THERE))
    reader = Reader(served, min_bytes=MUCH)
    reader.begin(at(0, 0), at(1, 0))
    asked = reader.fetch()
    served.turn.begin()
    await served.decide(partition=1, leader=THERE, epoch=1, replicas=(HERE, THERE))
    served.turn.end()
    (result,) = parts_of(asked)
    assert (result.partition, error_of(result), result.leader, result.leader_epoch) == (
        1,
        NotLeaderOrFollower,
        THERE,
        1,
    )


async def test_errors_come_with_the_answer_even_where_records_leave_no_room(served: Served) -> None:
    await with_partitions(served, 2)
    append(served, 0, 5)
    reader = Reader(served, max_bytes=1)
    assert sorted(told(reader.begin(at(0, 0), at(9, 0), at(1, 0)))) == [0, 9]


# --- limits, and whose turn it is --------------------------------------------------------------------------------------------


async def test_busy_partition_keeps_nobody_out(served: Served) -> None:
    """Each answer has room for one batch, and one partition always has more."""
    await with_partitions(served, 5)
    reader = Reader(served, max_bytes=1)
    append(served, 0, 50)
    for partition in range(1, 5):
        append(served, partition)
    seen = told(reader.begin(*(at(partition, 0) for partition in range(5))))
    offset = 1
    for _ in range(8):
        seen += told(reader.fetch(at(0, offset)) if seen[-1] == 0 else reader.fetch())
        offset += seen[-1] == 0
    assert set(seen[:6]) == {0, 1, 2, 3, 4}


async def test_batch_larger_than_all_limits_comes_when_it_is_first(served: Served) -> None:
    await with_partitions(served, 2)
    size = append(served, 0)
    served.produce(batch_of(b"y" * 5000), partition=1)
    reader = Reader(served, max_bytes=size + 100)
    assert told(reader.begin(at(0, 0), at(1, 0))) == [0]
    append(served, 0)
    assert told(reader.fetch(at(0, 1))) == [1]
    assert told(reader.fetch(at(1, 1))) == [0]


@pytest.mark.parametrize(
    ("of_part", "of_all", "sizes"), [(3.01, 100, [3, 3, 3]), (3.01, 4.5, [3, 1]), (0.001, 0.001, [1])]
)
async def test_bytes_have_limits(served: Served, of_part: float, of_all: float, sizes: list[int]) -> None:
    await with_partitions(served, 3)
    for partition in range(3):
        size = append(served, partition, 10)
    reader = Reader(served, max_bytes=int(of_all * size))
    asked = reader.begin(*(at(partition, 0, int(of_part * size)) for partition in range(3)))
    assert [part.size for part in parts_of(asked)] == [count * size for count in sizes]


async def test_one_append_touches_nobody_else(served: Served) -> None:
    await with_partitions(served, 50)
    readers = [Reader(served) for _ in range(10)]
    for number, reader in enumerate(readers):
        reader.begin(*(at(partition, 0) for partition in range(50) if partition % 10 == number))
    asked = [reader.fetch() for reader in readers]
    append(served, 23)
    assert [not each.waits for each in asked] == [number == 3 for number in range(10)]


# --- all of it together ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
async def test_every_record_is_told_once_whatever_is_named_when(served: Served, seed: int) -> None:
    """A reader that names, drops, begins anew and loses answers at random has read everything in the end."""
    dice = random.Random(seed)
    count = 6
    await with_partitions(served, count)
    reader = Reader(served, min_bytes=dice.choice([1, 1, 3000]), max_bytes=dice.choice([1, 2500, MUCH]))
    size = append(served, 0)
    ends, places = [1] + [0] * (count - 1), [0] * count
    unnamed = set(range(count))  # where the broker does not know where the reader is
    begun = False
    for step in range(400):
        calm = step > 300
        if not calm:
            for _ in range(dice.randrange(3)):
                partition = dice.randrange(count)
                append(served, partition)
                ends[partition] += 1
        if not calm and dice.random() < 0.1:
            begun = dice.random() < 0.5 and begun  # begins anew, or hears nothing of what it asked for last
            reader.fetch(wait_ms=0) if begun else None
            begun, unnamed = False, set(range(count))
        named = sorted(unnamed) if calm or not begun else [p for p in sorted(unnamed) if dice.random() < 0.7]
        dropped = [] if calm or not begun else [p for p in range(count) if dice.random() < 0.05 and p not in named]
        asked = (
            reader.fetch(*(at(p, places[p]) for p in named), dropped=dropped, wait_ms=dice.choice([0, LONG_MS]))
            if begun
            else reader.begin(*(at(p, places[p]) for p in named))
        )
        unnamed = (unnamed - set(named)) | set(dropped)
        begun = True
        if asked.waits:
            following = reader.fetch(wait_ms=0)
            answers = [asked, following]
        else:
            answers = [asked]
        for answer in answers:
            for part in parts_of(answer):
                assert part.partition not in unnamed
                assert part.size % size == 0
                places[part.partition] += part.size // size
                unnamed.add(part.partition)
    assert places == ends
