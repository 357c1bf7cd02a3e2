"""The checker finds every kind of violation, and only those; without its rule, a violation goes unnoticed."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from ottla.chaos.checker import RULES, check, events_around, report
from ottla.chaos.checker.contents import changed
from ottla.chaos.checker.groups import committed_back, committed_unread, group_missed, owned_twice
from ottla.chaos.checker.order import key_moved, stored_in_the_past, stored_out_of_order
from ottla.chaos.checker.polls import disagrees_with_the_log, read_out_of_order, unseen
from ottla.chaos.checker.progress import failed_without_need, never_ended, not_healed, proves_nothing, stood_still
from ottla.chaos.checker.receipts import epochs_go_back_in_the_log, receipts_that_lie
from ottla.chaos.checker.replicas import replicas_differ
from ottla.chaos.checker.sessions import not_read_to_the_end, sessions_that_do_not_go_on
from ottla.chaos.checker.violation import Rule
from ottla.chaos.checker.writes import acknowledged_twice, lost_and_moved, read_twice_or_never_sent
from ottla.chaos.history import (
    Batch,
    Event,
    Expectation,
    History,
    Lowered,
    Poll,
    Read,
    Reads,
    Replica,
    Send,
    Session,
)
from ottla.client.records import Receipt


def acked(
    number: int,
    offset: int | None,
    *,
    began: float = 0.0,
    ended: float = 1.0,
    producer: str = "a",
    key: str = "",
    partition: int = 0,
    receipt: Receipt | None = None,
) -> Send:
    send = Send(producer, number, began, key)
    send.acknowledged(partition, offset, ended, receipt)
    return send


def unknown(number: int) -> Send:
    return Send("a", number, 0.0)


def pending(number: int) -> Send:
    return Send("a", number, 0.0, delivery_timeout_s=90.0)


def given_up(began: float, ended: float) -> Send:
    send = Send("a", 0, began, delivery_timeout_s=90.0)
    send.unheard(ended, "ClientTimeout")
    return send


def refused(number: int) -> Send:
    send = Send("a", number, 0.0)
    send.refused(1.0, "too large")
    return send


def reads(*values: str) -> Reads:
    return {0: [Read(offset, value.encode()) for offset, value in enumerate(values)]}


def poll(*offsets: int, consumer: str = "c", session: int = 0) -> Poll:
    return Poll(consumer, session, 5.0, 0, [Read(offset, b"a-%d" % offset) for offset in offsets])


def replica(broker: int, *epochs: int, tail: bytes = b"") -> Replica:
    batches = [Batch(offset, offset + 1, epoch, b"crc") for offset, epoch in enumerate(epochs)]
    return Replica(0, broker, len(epochs) * 100 + len(tail), repr(epochs).encode() + tail, batches)


def receipt(epoch: int = 1, *, leader: int = 0, isr: Sequence[int] = (0, 1), high_watermark: int = 100) -> Receipt:
    return Receipt(leader, epoch, tuple(isr), high_watermark)


def of(sends: Sequence[Send], found: Reads | None = None) -> History:
    return History(sends, reads() if found is None else found)


THREE = [acked(number, number) for number in range(3)]
THREE_READ = reads("a-0", "a-1", "a-2")
GOOD = dataclasses.replace(of(THREE, THREE_READ), min_insync=2)


def with_polls(*polls: Poll, begins: Sequence[int] = (0,)) -> History:
    """Each consumer's sessions begin as told, or else at 0."""
    consumers = sorted({poll.consumer for poll in polls})
    sessions = [Session(name, number, 0.0, {0: begin}) for name in consumers for number, begin in enumerate(begins)]
    return dataclasses.replace(GOOD, polls=polls, sessions=sessions)


def with_replicas(*replicas: Replica) -> History:
    return dataclasses.replace(GOOD, replicas=replicas)


def with_receipts(*receipts: Receipt, times: Sequence[float] = (0, 0, 0)) -> History:
    sends = [
        acked(n, n, receipt=given, began=times[n], ended=times[n] + 1)
        for n, given in zip(range(3), receipts, strict=False)
    ]
    values = [f"a-{n}" for n in range(len(sends))]
    return dataclasses.replace(GOOD, sends=sends, reads=reads(*values))


def expecting(began: float, ended: float, acks: int = 1, partitions: tuple[int, ...] = (0,)) -> History:
    return dataclasses.replace(GOOD, expectations=[Expectation(began, ended, partitions, acks, "one broker is dead")])


TWO_AT_ONE_OFFSET = {0: [Read(0, b"a-0"), Read(0, b"a-1")]}
LATE = [acked(0, 1, began=0.0, ended=1.0), acked(0, 0, began=2.0, ended=3.0, producer="b")]
TWO_HOMES = [acked(0, 0, key="k"), acked(1, 0, key="k", partition=1, producer="b")]
TWO_HOMES_READ = {0: [Read(0, b"a-k-0", b"k")], 1: [Read(0, b"b-k-1", b"k")]}
WITH_ALL = Send("a", 0, 0.0, "k", headers=(("h", b"1"),), timestamp=7)
ALL_READ = Read(0, b"a-k-0", b"k", (("h", b"1"),), 7)


def reading(*consumers: str, polls: Sequence[Poll] = ()) -> History:
    sessions = [Session(consumer, 0, 0.0, {0: 0}) for consumer in consumers]
    return dataclasses.replace(GOOD, consumers=consumers, sessions=sessions, polls=polls)


# A history, the kinds of violation in it, and the rule that finds them.
BAD: dict[str, tuple[History, list[str], Rule]] = {
    "lost at the end": (of([acked(0, 0), acked(1, 1)], reads("a-0")), ["lost"], lost_and_moved),
    "lost in the middle": (
        of([acked(0, 0), unknown(1), acked(2, 1)], reads("a-0", "a-1")),
        ["lost"],
        lost_and_moved,
    ),
    "lost, place unknown": (of([acked(0, None)], {0: []}), ["lost"], lost_and_moved),
    "moved": (of([acked(0, 1), unknown(1)], reads("a-0", "a-1")), ["inconsistent offset"], lost_and_moved),
    "aborted but seen": (of([refused(0)], reads("a-0")), ["failed write seen"], lost_and_moved),
    "duplicate": (of([acked(0, 0)], reads("a-0", "a-0")), ["duplicate"], read_twice_or_never_sent),
    "duplicate over partitions": (
        of([unknown(0)], {0: [Read(0, b"a-0")], 1: [Read(0, b"a-0")]}),
        ["duplicate"],
        read_twice_or_never_sent,
    ),
    "never sent": (of([], reads("a-0")), ["never sent"], read_twice_or_never_sent),
    "one offset, two acks": (
        of([acked(0, 0), acked(0, 0, producer="b")], reads("a-0")),
        ["lost", "inconsistent offset"],
        acknowledged_twice,
    ),
    "stored out of order": (
        of([acked(0, 1), acked(1, 0)], reads("a-1", "a-0")),
        ["non-monotonic send"],
        stored_out_of_order,
    ),
    "stored in the past": (of(LATE, reads("b-0", "a-0")), ["stored in the past"], stored_in_the_past),
    "key in two partitions": (of(TWO_HOMES, TWO_HOMES_READ), ["key moved"], key_moved),
    "final read skips": (
        of([acked(0, 0), acked(1, 2)], {0: [Read(0, b"a-0"), Read(2, b"a-1")]}),
        ["skip"],
        read_out_of_order,
    ),
    "final read goes back": (
        of(THREE[:2], {0: [Read(0, b"a-0"), Read(1, b"a-1"), Read(0, b"a-0")]}),
        ["non-monotonic read"],
        read_out_of_order,
    ),
    "changed key": (of([WITH_ALL], {0: [ALL_READ._replace(key=b"K")]}), ["changed"], changed),
    "changed headers": (of([WITH_ALL], {0: [ALL_READ._replace(headers=())]}), ["changed"], changed),
    "changed timestamp": (of([WITH_ALL], {0: [ALL_READ._replace(timestamp=8)]}), ["changed"], changed),
    "polled another key": (
        with_polls(Poll("c", 0, 5.0, 0, [Read(0, b"a-0", b"k")])),
        ["changed"],
        disagrees_with_the_log,
    ),
    "first session begins too late": (with_polls(poll(1, 2)), ["skip", "unseen"], read_out_of_order),
    "first session is told to begin too late": (
        with_polls(poll(1, 2), begins=[1]),
        ["wrong session"],
        sessions_that_do_not_go_on,
    ),
    "second session skips": (
        with_polls(poll(0), poll(2, session=1), begins=[0, 1]),
        ["skip", "unseen"],
        read_out_of_order,
    ),
    "second session repeats": (
        with_polls(poll(0, 1), poll(0, 1, 2, session=1), begins=[0, 2]),
        ["non-monotonic poll", "non-monotonic poll"],
        read_out_of_order,
    ),
    "second session is told to repeat": (
        with_polls(poll(0, 1), poll(0, 1, 2, session=1), begins=[0, 0]),
        ["wrong session"],
        sessions_that_do_not_go_on,
    ),
    "a poll of no session": (
        with_polls(poll(0, 1, 2), poll(0, session=3)),
        ["wrong session"],
        sessions_that_do_not_go_on,
    ),
    "no polls at all": (reading("c"), ["nothing read"], not_read_to_the_end),
    "one of two reads nothing": (reading("c", "d", polls=[poll(0, 1, 2)]), ["nothing read"], not_read_to_the_end),
    "not read to the end": (reading("c", polls=[poll(0, 1)]), ["not read to the end"], not_read_to_the_end),
    "no acks at all": (
        dataclasses.replace(reading("c", polls=[poll(0, 1, 2)]), sends=[unknown(n) for n in range(3)]),
        ["nothing acknowledged"],
        proves_nothing,
    ),
    "a thread died": (dataclasses.replace(GOOD, failures=["nemesis: KeyError"]), ["run failed"], proves_nothing),
    "poll goes back": (with_polls(poll(0, 1), poll(1, 2)), ["non-monotonic poll"], read_out_of_order),
    "poll skips": (with_polls(poll(0), poll(2)), ["skip", "unseen"], read_out_of_order),
    "unseen": (with_polls(poll(0, 2)), ["skip", "unseen"], unseen),
    "polled, then gone": (with_polls(poll(0, 1, 2, 3)), ["read and lost"], disagrees_with_the_log),
    "polled another value": (
        with_polls(Poll("c", 0, 5.0, 0, [Read(0, b"a-1")])),
        ["inconsistent offset"],
        disagrees_with_the_log,
    ),
    "replicas of other epochs": (
        with_replicas(replica(0, 1, 1), replica(1, 1, 2)),
        ["replicas differ"],
        replicas_differ,
    ),
    "shorter replica": (with_replicas(replica(0, 1, 1), replica(1, 1)), ["replicas differ"], replicas_differ),
    "replica with a torn tail": (
        with_replicas(replica(0, 1), replica(1, 1, tail=b"x")),
        ["replicas differ"],
        replicas_differ,
    ),
    "epochs go back in the log": (with_replicas(replica(0, 2, 1)), ["epoch goes back"], epochs_go_back_in_the_log),
    "ack before commit": (with_receipts(receipt(high_watermark=0)), ["acknowledged too early"], receipts_that_lie),
    "ack by too few": (with_receipts(receipt(isr=[0])), ["acknowledged by too few"], receipts_that_lie),
    "ack by too few before it was allowed": (
        dataclasses.replace(with_receipts(receipt(isr=[0])), lowered=[Lowered(1.5, 9.0, 1)]),
        ["acknowledged by too few"],
        receipts_that_lie,
    ),
    "two leaders": (
        with_receipts(receipt(1, leader=0), receipt(1, leader=1)),
        ["two leaders in one epoch"],
        receipts_that_lie,
    ),
    "receipt of an earlier epoch than the record": (
        dataclasses.replace(with_receipts(receipt(1)), replicas=[replica(0, 2)]),
        ["receipt of another epoch"],
        receipts_that_lie,
    ),
    "epochs go back in time": (
        with_receipts(receipt(2), receipt(1, leader=1), times=(0, 5)),
        ["epoch goes back"],
        receipts_that_lie,
    ),
    "never ended": (of([pending(0)], {0: []}), ["never ended"], never_ended),
    "given up early": (of([given_up(10.0, 15.0)], {0: []}), ["failed without need"], failed_without_need),
    "given up without a fault": (of([given_up(10.0, 100.0)], {0: []}), ["failed without need"], failed_without_need),
    "no progress": (expecting(2.0, 9.0), ["no progress"], stood_still),
    "too little progress": (expecting(0.0, 9.0, acks=4), ["no progress"], stood_still),
    "one partition stands still": (expecting(0.0, 9.0, partitions=(0, 1)), ["no progress"], stood_still),
    "not healed": (
        dataclasses.replace(GOOD, troubles=["broker 2 is not in sync after 60 s"]),
        ["not healed"],
        not_healed,
    ),
}

FINE: dict[str, History] = {
    "empty": of([], {}),
    "empty partition": of([], {0: []}),
    "ordinary": of(
        [acked(0, 0), acked(1, 1), acked(0, 2, producer="b"), acked(2, None)], reads("a-0", "a-1", "b-0", "a-2")
    ),
    "unknown and not there": of([unknown(0), acked(1, 0)], reads("a-1")),
    "unknown and there": of([unknown(0), acked(1, 1)], reads("a-0", "a-1")),
    "refused and not there": of([refused(0)], {0: []}),
    "two producers interleave": of([acked(5, 1), acked(0, 0, producer="b"), acked(6, 2)], reads("b-0", "a-5", "a-6")),
    "writes at the same time": of(
        [acked(0, 1, began=0.0, ended=1.0), acked(0, 0, began=0.5, ended=3.0, producer="b")], reads("b-0", "a-0")
    ),
    "all of a record": of([WITH_ALL], {0: [ALL_READ]}),
    "a timestamp that the producer chose": of([dataclasses.replace(WITH_ALL, timestamp=None)], {0: [ALL_READ]}),
    "a consumer that stopped early": with_polls(poll(0)),
    "a consumer that goes on": with_polls(poll(0, 1), poll(2, session=1), begins=[0, 2]),
    "a session without a record": with_polls(poll(0, 1), poll(2, session=2), begins=[0, 2, 2]),
    "readers that got everything": reading("c", "d", polls=[poll(0, 1, 2), poll(0, 1, 2, consumer="d")]),
    "ack by few while it was allowed": dataclasses.replace(
        with_receipts(receipt(isr=[0])), lowered=[Lowered(0.5, 9.0, 1)]
    ),
    "two consumers": with_polls(poll(0), poll(0, 1, consumer="d"), poll(1, 2)),
    "equal replicas": with_replicas(replica(0, 1, 2), replica(1, 1, 2)),
    "receipts over a failover": with_receipts(receipt(1), receipt(2, leader=1), receipt(2, leader=1), times=(0, 5, 6)),
    "a record that waited while the next epoch began": dataclasses.replace(
        with_receipts(receipt(2)), replicas=[replica(0, 1)]
    ),
    "progress": expecting(0.0, 9.0, acks=3),
}


@pytest.mark.parametrize("name", FINE)
def test_good_history_has_no_violation(name: str) -> None:
    assert check(FINE[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_violation_is_found(name: str) -> None:
    history, kinds, _ = BAD[name]
    assert [violation.kind for violation in check(history)] == kinds


@pytest.mark.parametrize("name", BAD)
def test_violation_goes_unnoticed_without_its_rule(name: str) -> None:
    history, kinds, rule = BAD[name]
    others = [violation.kind for violation in check(history, [other for other in RULES if other is not rule])]
    assert others != kinds
    assert len(others) < len(kinds)


def test_every_rule_is_needed_by_some_history() -> None:
    of_groups = {owned_twice, committed_back, committed_unread, group_missed}  # test_checker_groups.py
    assert {rule for _, _, rule in BAD.values()} | of_groups == set(RULES)


def test_lost_record_is_told_with_its_place() -> None:
    [end] = check(BAD["lost at the end"][0])
    assert "b'a-1' was acknowledged at partition 0 offset 1, behind the end" in end.what
    [middle] = check(BAD["lost in the middle"][0])
    assert "in the middle" in middle.what


def test_replicas_that_differ_are_told_where_they_part() -> None:
    [found] = check(BAD["replicas of other epochs"][0])
    assert "they part at offset 1: offsets 1 to 1 of epoch 1 and offsets 1 to 1 of epoch 2" in found.what


def test_events_around_a_guilty_record_are_those_that_overlap_it() -> None:
    lost = acked(0, 0, began=100.0, ended=103.0)
    [violation] = check(of([lost], {0: []}))
    early = Event(10.0, "fault", "kill broker 0", 20.0)
    during = Event(50.0, "fault", "pause broker 1", 101.0)
    close = Event(104.5, "leader", "partition 0: 1 leads", targets=("0", "1"))
    elsewhere = Event(104.6, "leader", "partition 1: 2 leads", targets=("1", "2"))
    late = Event(110.0, "fault", "kill broker 2")
    assert events_around(violation, [early, during, close, elsewhere, late]) == [during, close]


def test_patient_producer_may_give_up_when_faults_lasted_as_long_as_its_timeout() -> None:
    faults = [Event(10.0, "fault", "kill all", 60.0), Event(55.0, "fault", "pause all", 99.0)]
    history = of([given_up(10.0, 100.0)], {0: []})
    assert check(dataclasses.replace(history, events=faults)) == []
    assert [one.kind for one in check(dataclasses.replace(history, events=faults[:1]))] == ["failed without need"]


def test_report_counts_the_kinds_and_shows_some() -> None:
    text = report(check(of([acked(number, number) for number in range(20)], {0: []})))
    assert text.startswith("lost: 20\n")
    assert len(text.splitlines()) == 6


def test_key_and_counter_are_part_of_a_value() -> None:
    make: Callable[..., Send] = Send
    assert make("p", 7, 0.0, "k3").value == b"p-k3-7"
    assert make("p", 7, 0.0).value == b"p-7"
