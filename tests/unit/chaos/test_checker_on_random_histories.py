"""Random histories that a sound log could have had are found sound; with one thing wrong in them, that is found."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.chaos.checker import check
from ottla.chaos.history import Batch, History, Outcome, Poll, Read, Replica, Send, Session
from ottla.client.records import Receipt

PARTITIONS = 2

# One write after another: which producer, which partition, what becomes of it, and whether a new leader comes before it.
Written = tuple[str, int, str, bool]
written = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, PARTITIONS - 1),
        st.sampled_from(["acked", "acked", "acked", "unknown, stored", "unknown, gone", "refused"]),
        st.booleans(),
    ),
    max_size=40,
)


def history_of(writes: list[Written]) -> History:
    """What is seen from outside of a log that does everything right; each write overlaps with the two after it."""
    sends: list[Send] = []
    logs: dict[int, list[Read]] = {partition: [] for partition in range(PARTITIONS)}
    batches: dict[int, list[Batch]] = {partition: [] for partition in range(PARTITIONS)}
    epoch = 0
    for number, (producer, partition, outcome, failover) in enumerate(writes):
        epoch += failover
        send = Send(producer, number, float(number), key=f"k{partition}")
        offset = len(logs[partition])
        if outcome in ("acked", "unknown, stored"):
            logs[partition].append(Read(offset, send.value, send.key.encode()))
            batches[partition].append(Batch(offset, offset + 1, epoch, b"bytes"))
        if outcome == "acked":
            send.acknowledged(partition, offset, number + 2.5, Receipt(epoch % 3, epoch, (0, 1), offset + 1))
        elif outcome == "refused":
            send.refused(number + 1.0)
        sends.append(send)
    polls = [Poll("c", 0, 100.0, partition, [read]) for partition, log in logs.items() for read in log]
    replicas = [
        Replica(partition, broker, len(found), repr(found).encode(), found)
        for partition, found in batches.items()
        for broker in range(3)
    ]
    sessions = [Session("c", 0, 0.0, dict.fromkeys(logs, 0))]
    return History(sends, logs, polls, replicas, min_insync=2, sessions=sessions)


def kinds(history: History) -> set[str]:
    return {violation.kind for violation in check(history)}


@given(written)
def test_sound_history_is_found_sound(writes: list[Written]) -> None:
    assert check(history_of(writes)) == []


def an_acked_one(history: History, data: st.DataObject) -> tuple[Send, int, int]:
    acked = [send for send in history.sends if send.outcome is Outcome.OK]
    assume(acked)
    send = data.draw(st.sampled_from(acked))
    assert send.partition is not None
    assert send.offset is not None
    return send, send.partition, send.offset


def with_log(history: History, partition: int, log: list[Read]) -> History:
    return replace(history, reads={**history.reads, partition: log})


@given(written, st.data())
def test_any_acked_record_that_is_cut_away_is_found_lost(writes: list[Written], data: st.DataObject) -> None:
    history = history_of(writes)
    _, partition, offset = an_acked_one(history, data)
    found = kinds(with_log(history, partition, list(history.reads[partition][:offset])))
    assert {"lost", "read and lost"} <= found


@given(written, st.data())
def test_any_record_that_is_stored_again_is_found_twice(writes: list[Written], data: st.DataObject) -> None:
    history = history_of(writes)
    send, partition, _ = an_acked_one(history, data)
    log = list(history.reads[partition])
    assert "duplicate" in kinds(with_log(history, partition, [*log, Read(len(log), send.value, send.key.encode())]))


@given(written, st.data())
def test_two_records_that_change_places_are_found(writes: list[Written], data: st.DataObject) -> None:
    history = history_of(writes)
    _, partition, offset = an_acked_one(history, data)
    log = list(history.reads[partition])
    assume(len(log) > 1)
    other = data.draw(st.integers(0, len(log) - 1).filter(lambda place: place != offset))
    log[offset], log[other] = log[other]._replace(offset=offset), log[offset]._replace(offset=other)
    assert "inconsistent offset" in kinds(with_log(history, partition, log))


@given(written, st.data())
def test_a_replica_with_one_other_batch_is_found(writes: list[Written], data: st.DataObject) -> None:
    history = history_of(writes)
    _, partition, offset = an_acked_one(history, data)
    broker = data.draw(st.integers(0, 2))
    replicas = []
    for one in history.replicas:
        if (one.partition, one.broker) == (partition, broker):
            batches = list(one.batches)
            batches[offset] = batches[offset]._replace(digest=b"other")
            replicas.append(one._replace(batches=batches, digest=repr(batches).encode()))
        else:
            replicas.append(one)
    assert "replicas differ" in kinds(replace(history, replicas=replicas))
