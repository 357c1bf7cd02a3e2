"""Fetch sessions of Kafka's clients (KIP-227): numbers and epochs, what an answer speaks of, and that nothing is lost by it."""

import pytest

from ottla.broker.api.numbered_sessions import NUMBER_MAX, NumberedSession, epoch_after
from ottla.wire.control import StopReplicaPart, UpdateMetadataRequest
from ottla.wire.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OttlaError,
    UnknownTopicId,
)
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.requests import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchDrop,
    NumberedFetchResponse,
)
from tests.component.api.numbered_client import (
    LONG_MS,
    MUCH,
    Client,
    at,
    by_id,
    parts_of,
    told,
)
from tests.component.api.served import HERE, THERE, Peer, Served, append, error_of, message_of, with_partitions

# --- numbers and epochs ------------------------------------------------------------------------------------------------------


async def test_first_answer_speaks_of_every_partition_and_gives_the_session_a_number(served: Served) -> None:
    await with_partitions(served, 3)
    append(served, 1)
    client = Client(served)
    answer = client.begin(at(0, 0), at(1, 0), at(2, 0), at(9, 0))
    assert [part.partition for part in answer.parts] == [0, 1, 2, 9]
    assert 0 < answer.session_id <= NUMBER_MAX
    assert Client(served).begin(at(0, 0)).session_id != answer.session_id
    assert served.consumers.kept == 5


@pytest.mark.parametrize(
    ("session", "epoch", "error"),
    [
        (0, 1, FetchSessionIdNotFound),
        (1, 1, FetchSessionIdNotFound),
        (-1, 3, FetchSessionIdNotFound),
        (None, 2, InvalidFetchSessionEpoch),
        (None, 7, InvalidFetchSessionEpoch),
        (None, -2, InvalidFetchSessionEpoch),
    ],
)
async def test_only_the_next_epoch_of_the_same_session_goes_on(
    served: Served, session: int | None, epoch: int, error: type[OttlaError]
) -> None:
    await with_partitions(served, 1)
    client = Client(served)
    number = client.begin(at(0, 0)).session_id + 2
    client.session, number = number - 2, number - 2 if session is None else number + session
    with pytest.raises(error):
        message_of(client.ask(number, epoch, ()), NumberedFetchResponse)
    assert client.look() == [], "what is refused changes nothing"


async def test_epochs_begin_again_at_one(served: Served) -> None:
    assert (epoch_after(FIRST_EPOCH), epoch_after(5), epoch_after(NUMBER_MAX)) == (1, 6, 1)
    await with_partitions(served, 1)
    client = Client(served)
    client.begin(at(0, 0))
    session = served.consumers.find(client.peer)
    assert isinstance(session, NumberedSession)
    session.epoch = client.epoch = NUMBER_MAX
    client.look()
    client.epoch = 1
    assert client.look() == []


async def test_session_belongs_to_its_connection(served: Served) -> None:
    await with_partitions(served, 1)
    client = Client(served)
    client.begin(at(0, 0))
    client.peer, first = Peer(), client.peer
    with pytest.raises(FetchSessionIdNotFound):
        parts_of(client.fetch())
    served.consumers.end(first)
    assert (len(served.consumers), served.consumers.kept) == (0, 0)


@pytest.mark.parametrize("epoch", [FIRST_EPOCH, FINAL_EPOCH])
async def test_who_names_everything_gives_up_its_session(served: Served, epoch: int) -> None:
    await with_partitions(served, 2)
    client = Client(served)
    before = client.begin(at(0, 0), at(1, 0)).session_id
    answer = message_of(client.ask(before, epoch, [at(1, 0)]), NumberedFetchResponse)
    assert [part.partition for part in answer.parts] == [1]
    assert (answer.session_id == NO_SESSION) == (epoch == FINAL_EPOCH)
    assert served.consumers.kept == (0 if epoch == FINAL_EPOCH else 1)
    with pytest.raises(FetchSessionIdNotFound):
        parts_of(client.ask(before, 1, ()))


async def test_who_wants_no_session_has_none_and_keeps_the_one_that_it_has(served: Served) -> None:
    await with_partitions(served, 1)
    client = Client(served)
    client.begin(at(0, 0))
    answer = message_of(client.ask(NO_SESSION, FINAL_EPOCH, [at(0, 0)]), NumberedFetchResponse)
    assert (answer.session_id, served.consumers.kept) == (NO_SESSION, 1)
    assert client.look() == []


async def test_session_without_partitions_ends(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served)
    client.begin(at(0, 0), at(1, 0))
    assert client.look(dropped=[FetchDrop("t", 0)]) == []
    answer = message_of(client.fetch(dropped=[FetchDrop("t", 1)]), NumberedFetchResponse)
    assert (answer.session_id, answer.parts) == (NO_SESSION, [])
    assert (len(served.consumers), served.purgatories.fetch.size) == (0, 0)


async def test_who_finds_no_room_is_answered_without_a_session(served: Served) -> None:
    await with_partitions(served, 3)
    served.consumers.kept_max = 2
    client = Client(served)
    answer = client.begin(at(0, 0), at(1, 0), at(2, 0))
    assert (answer.session_id, len(answer.parts)) == (NO_SESSION, 3)
    client.begin(at(0, 0), at(1, 0))
    with pytest.raises(FetchSessionIdNotFound):
        parts_of(client.fetch(at(2, 0)))


async def test_fetch_that_waits_is_answered_when_the_next_one_comes(served: Served) -> None:
    await with_partitions(served, 1)
    client = Client(served)
    client.begin(at(0, 0))
    first, second = client.fetch(), client.fetch()
    assert (told(first), second.waits) == ([], True)
    append(served, 0)
    assert told(second) == [0]


async def test_the_first_fetch_waits_for_records_too(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served)
    asked = client.ask(NO_SESSION, FIRST_EPOCH, [at(0, 0), at(1, 0)], wait_ms=LONG_MS)
    assert asked.waits
    append(served, 1)
    answer = message_of(asked, NumberedFetchResponse)
    assert [(part.partition, part.size > 0) for part in answer.parts] == [(0, False), (1, True)]
    client.session, client.epoch = answer.session_id, 1
    assert client.look(at(1, 1)) == []


async def test_partition_that_is_named_twice_is_kept_as_it_was_named_last(served: Served) -> None:
    await with_partitions(served, 1)
    client = Client(served)
    assert [part.error_code for part in client.begin(at(0, 5), at(0, 0)).parts] == [1, 0]
    append(served, 0)
    assert client.look() == [0]
    assert len(Client(served, by_id=True).begin(*[by_id(0, at, "x", known=False) for at in (0, 1)]).parts) == 2
    unknown = [by_id(0, 0, name, known=False) for name in ("x", "y")]
    assert len(Client(served, by_id=True).begin(*unknown).parts) == 2


async def test_names_that_no_topic_can_have_are_not_kept(served: Served) -> None:
    """Names of 32 KB held 1.3 GB of one connection. They are told of with an error, each time they are named."""
    await with_partitions(served, 1)
    client, long = Client(served), at(0, 0, topic="x" * 32_000)
    begun = client.begin(at(0, 0), long)
    assert ([part.error_code for part in begun.parts], begun.session_id) == ([0, 17], NO_SESSION)
    assert served.consumers.kept == 0
    client.begin(at(0, 0))
    for part in (long, at(1, 0, topic_id="x" * 32_000)):
        with pytest.raises(FetchSessionIdNotFound, match="no topic can have"):
            parts_of(client.fetch(part))
        assert served.consumers.kept == 0
        client.begin(at(0, 0))


# --- what an answer speaks of ------------------------------------------------------------------------------------------------


async def test_partition_without_news_is_left_out(served: Served) -> None:
    await with_partitions(served, 3)
    client = Client(served)
    client.begin(at(0, 0), at(1, 0), at(2, 0))
    assert client.look() == []
    asked = client.fetch()
    append(served, 1)
    assert told(asked) == [1]
    assert client.look(at(1, 1)) == [], "it knows the high watermark by the records"


async def test_what_was_answered_and_is_not_named_again_is_answered_again(served: Served) -> None:
    await with_partitions(served, 2)
    append(served, 0)
    client = Client(served)
    client.begin(at(0, 0), at(1, 0))
    assert client.look() == [0]
    assert client.look() == [0]
    assert client.look(at(0, 1)) == []
    assert client.look() == []


async def test_high_watermark_that_moved_is_told_with_the_next_answer_and_once(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served, max_bytes=1)
    client.begin(at(0, 0), at(1, 0))
    append(served, 0, 3)
    append(served, 1, 3)
    first = parts_of(client.fetch(wait_ms=0))
    assert {part.partition: part.high_watermark for part in first} == {0: 3, 1: 3}
    assert sum(part.size > 0 for part in first) == 1, "one has no room for its records, and is told of all the same"
    (next_one,) = parts_of(client.fetch(*(at(part.partition, 3) for part in first if part.size), wait_ms=0))
    assert next_one.size > 0


async def test_records_that_do_not_count_yet_are_no_news(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE), isr=(HERE, THERE))
    client = Client(served)
    client.begin(at(0, 0))
    append(served, 0)
    assert client.look() == []


async def test_log_that_begins_later_is_told(served: Served) -> None:
    await with_partitions(served, 2)
    append(served, 0, 3)
    client = Client(served)
    client.begin(at(0, 3), at(1, 0))
    served.partition().delete_records_before(2)
    (part,) = parts_of(client.fetch(wait_ms=0))
    assert (part.partition, part.log_start_offset, part.size) == (0, 2, 0)
    assert client.look() == []


async def test_partition_that_is_named_later_is_told_of_at_once(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served)
    client.begin(at(0, 0))
    assert client.look(at(1, 0)) == [1]
    assert client.look() == []


async def test_error_is_told_in_every_answer_until_it_has_gone_and_then_that(served: Served) -> None:
    await with_partitions(served, 1)
    client = Client(served, min_bytes=MUCH)
    client.begin(at(0, 0), at(1, 0))
    for _ in range(3):
        (part,) = parts_of(client.fetch())  # it does not wait
        assert (part.partition, part.error_code != 0) == (1, True)
    await served.decide(partition=1)
    (part,) = parts_of(client.fetch(wait_ms=0))
    assert (part.partition, part.error_code, part.high_watermark) == (1, 0, 0)
    assert client.look() == []


async def test_change_of_leader_is_told_at_once_with_who_leads_now(served: Served) -> None:
    await served.decide(replicas=(HERE, THERE))
    client = Client(served, min_bytes=MUCH)
    client.begin(at(0, 0))
    asked = client.fetch()
    served.turn.begin()
    await served.decide(leader=THERE, epoch=1, replicas=(HERE, THERE))
    served.turn.end()
    (result,) = parts_of(asked)
    assert (error_of(result), result.leader, result.leader_epoch) == (NotLeaderOrFollower, THERE, 1)


async def test_offset_that_is_not_there_is_told_and_the_rest_goes_on(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served)
    client.begin(at(0, 99), at(1, 0))
    append(served, 1)
    parts = {part.partition: part for part in parts_of(client.fetch())}
    assert error_of(parts[0]) is OffsetOutOfRange
    assert parts[1].size > 0


async def test_busy_partition_keeps_nobody_out(served: Served) -> None:
    await with_partitions(served, 5)
    append(served, 0, 50)
    for partition in range(1, 5):
        append(served, partition)
    client = Client(served, max_bytes=1)
    with_records = [
        part.partition for part in client.begin(*(at(partition, 0) for partition in range(5))).parts if part.size
    ]
    places = {partition: int(partition in with_records) for partition in range(5)}
    for _ in range(8):
        last = with_records[-1]
        parts = parts_of(client.fetch(at(last, places[last]), wait_ms=0))
        (found,) = [part.partition for part in parts if part.size]
        with_records.append(found)
        places[found] += 1
    assert set(with_records[:6]) == {0, 1, 2, 3, 4}


# --- topics by their ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
async def test_session_keeps_to_names_or_to_ids(served: Served, first: bool) -> None:
    await with_partitions(served, 1)
    client = Client(served, by_id=first)
    client.begin(by_id(0, 0) if first else at(0, 0))
    client.by_id = not first
    with pytest.raises(FetchSessionTopicIdError):
        parts_of(client.fetch())


async def test_answers_name_the_id_that_was_asked_for(served: Served) -> None:
    await with_partitions(served, 2)
    client = Client(served, by_id=True)
    assert {part.topic_id for part in client.begin(by_id(0, 0), by_id(1, 0), by_id(7, 0)).parts} == {"id-of-t"}
    append(served, 1)
    parts = parts_of(client.fetch())
    assert {(part.partition, part.topic_id) for part in parts} == {(1, "id-of-t"), (7, "id-of-t")}


async def test_id_that_nobody_knows_is_told_in_every_answer_until_it_is_known(served: Served) -> None:
    client = Client(served, by_id=True)
    (part,) = client.begin(by_id(0, 0, known=False)).parts
    assert (error_of(part), part.topic_id) == (UnknownTopicId, "id-of-t")
    (part,) = parts_of(client.fetch())
    assert (error_of(part), part.topic_id) == (UnknownTopicId, "id-of-t")
    await served.decide()
    (part,) = parts_of(client.fetch(wait_ms=0))
    assert (part.error_code, part.topic_id, part.high_watermark) == (0, "id-of-t", 0)
    asked = client.fetch()
    append(served, 0)
    assert told(asked) == [0], "it is watched by its name from then on"


async def test_topic_that_was_deleted_is_unknown_by_its_id(served: Served) -> None:
    await served.decide()
    client = Client(served, by_id=True)
    client.begin(by_id(0, 0))
    await served.partitions.stop([StopReplicaPart("t", "id-of-t", 0, 1, True)])
    brokers = [BrokerEndpoint(HERE, "host", 9092)]
    served.view.update(UpdateMetadataRequest(HERE, 1, 1, False, brokers, [], [], ["t"], 99))
    (part,) = parts_of(client.fetch())
    assert (error_of(part), part.topic_id) == (UnknownTopicId, "id-of-t")


async def test_topic_in_place_of_another_is_named_while_that_one_is_dropped(served: Served) -> None:
    """A client that learns of the new id names it and forgets the old one, in one request."""
    await served.decide()
    client = Client(served, by_id=True)
    client.begin(at(0, 5, topic="", topic_id="old-id"))
    parts = parts_of(client.fetch(by_id(0, 0), dropped=[FetchDrop("old-id", 0)], wait_ms=0))
    assert [(part.topic_id, part.error_code) for part in parts] == [("id-of-t", 0)]
    append(served, 0)
    assert client.look() == [0]
    assert served.consumers.kept == 1
