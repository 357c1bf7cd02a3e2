"""The checker is checked: one good history of everything that a run records, and many ways to spoil one thing in it.

Each has a name, and the kind of violation by which the checker must call it. Places are random, by seed.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.chaos.checker import check, report
from ottla.chaos.history import Lowered, Outcome, Read, Send
from ottla.client.records import Receipt
from tests.unit.chaos.spoilt_history import PARTITIONS, RECORDS, Spoilt, good, place

SEEDS = range(5)

# --- one thing that is wrong ---------------------------------------------------------------------------------------------

Mutation = Callable[[Spoilt], None]
MUTATIONS: dict[str, tuple[str, Mutation]] = {}


def called(kind: str) -> Callable[[Mutation], Mutation]:
    """The violation by which a mutation must be called."""

    def note(mutation: Mutation) -> Mutation:
        MUTATIONS[mutation.__name__] = (kind, mutation)
        return mutation

    return note


@called("lost")
def an_acked_record_is_gone(it: Spoilt) -> None:
    partition, offset = place(it.acked())
    del it.logs[partition][offset]
    it.renumber(partition)


@called("lost")
def everything_behind_an_acked_record_is_cut(it: Spoilt) -> None:
    partition, offset = place(it.acked())
    del it.logs[partition][offset:]


@called("read and lost")
def what_was_read_is_cut(it: Spoilt) -> None:
    everything_behind_an_acked_record_is_cut(it)


@called("duplicate")
def a_record_is_stored_twice(it: Spoilt) -> None:
    partition, offset = place(it.acked())
    it.logs[partition].append(it.logs[partition][offset])
    it.renumber(partition)


@called("non-monotonic send")
def two_records_of_a_producer_change_places(it: Spoilt) -> None:
    send = it.acked()
    partition, offset = place(send)
    later = next(
        read.offset
        for read in it.logs[partition][offset + 1 :]
        if read.value is not None and read.value.startswith(send.producer.encode())
    )
    log = it.logs[partition]
    log[offset], log[later] = log[later], log[offset]
    it.renumber(partition)


@called("inconsistent offset")
def an_ack_names_another_offset(it: Spoilt) -> None:
    send = it.acked()
    _, offset = place(send)
    send.offset = offset + 1


@called("inconsistent offset")
def an_ack_names_another_partition(it: Spoilt) -> None:
    send = it.acked()
    partition, _ = place(send)
    send.partition = (partition + 1) % PARTITIONS


@called("inconsistent offset")
def a_reader_got_another_value(it: Spoilt) -> None:
    number = it.poll_number()
    poll = it.polls[number]
    it.polls[number] = poll._replace(reads=[poll.reads[0]._replace(value=it.sends[0].value)])


@called("failed write seen")
def a_refused_record_is_there(it: Spoilt) -> None:
    refused = it.chance.choice([send for send in it.sends if send.outcome is Outcome.FAILED])
    it.logs[0].append(Read(len(it.logs[0]), refused.value, refused.key.encode(), refused.headers, 5))
    it.renumber(0)


@called("never sent")
def a_stranger_is_there(it: Spoilt) -> None:
    it.change_read(it.acked(), value=b"nobody sent this")


@called("never sent")
def a_value_is_null(it: Spoilt) -> None:
    it.change_read(it.acked(), value=None)


@called("changed")
def a_key_is_changed(it: Spoilt) -> None:
    it.change_read(it.acked(), key=b"another")


@called("changed")
def a_key_is_lost(it: Spoilt) -> None:
    it.change_read(it.acked(), key=None)


@called("changed")
def headers_are_changed(it: Spoilt) -> None:
    it.change_read(it.acked(), headers=(("n", b"other"),))


@called("changed")
def a_timestamp_is_changed(it: Spoilt) -> None:
    send = it.acked()
    while send.timestamp is None:
        send = it.acked()
    it.change_read(send, timestamp=send.timestamp + 1)


@called("changed")
def a_reader_alone_got_another_timestamp(it: Spoilt) -> None:
    number = it.poll_number()
    poll = it.polls[number]
    it.polls[number] = poll._replace(reads=[poll.reads[0]._replace(timestamp=1)])


@called("changed")
def a_reader_alone_got_other_headers(it: Spoilt) -> None:
    number = it.poll_number()
    poll = it.polls[number]
    it.polls[number] = poll._replace(reads=[poll.reads[0]._replace(headers=(("x", None),))])


@called("key moved")
def a_record_is_in_a_partition_that_its_key_does_not_belong_to(it: Spoilt) -> None:
    send = it.acked()
    partition, offset = place(send)
    other = (partition + 1) % PARTITIONS
    it.logs[other].append(it.logs[partition].pop(offset))
    it.renumber(partition)
    it.renumber(other)


def told_to_begin(it: Spoilt, session: int, begin: int) -> None:
    """One reader's session begins elsewhere, and reads from there."""
    for number, one in enumerate(it.sessions):
        if (one.consumer, one.number) == ("one", session):
            it.sessions[number] = one._replace(begins={**one.begins, 0: begin})


def without(it: Spoilt, session: int, offsets: range) -> None:
    it.polls = [
        poll
        for poll in it.polls
        if not (
            (poll.consumer, poll.session, poll.partition) == ("one", session, 0) and poll.reads[0].offset in offsets
        )
    ]


@called("skip")
def the_first_session_begins_at_40_though_it_was_told_earliest(it: Spoilt) -> None:
    without(it, 0, range(40))


@called("unseen")
def what_the_first_session_left_out_was_acknowledged(it: Spoilt) -> None:
    without(it, 0, range(40))


@called("wrong session")
def the_first_session_is_told_to_begin_at_40(it: Spoilt) -> None:
    without(it, 0, range(40))
    told_to_begin(it, 0, 40)


@called("skip")
def the_second_session_skips_50_to_69(it: Spoilt) -> None:
    without(it, 1, range(50, 70))


@called("wrong session")
def the_second_session_is_told_to_skip_50_to_69(it: Spoilt) -> None:
    without(it, 1, range(50, 70))
    told_to_begin(it, 1, 70)


def repeat(it: Spoilt) -> None:
    first = [poll for poll in it.polls if (poll.consumer, poll.session, poll.partition) == ("one", 0, 0)]
    it.polls = [
        *first,
        *(poll._replace(session=1) for poll in first),
        *(poll for poll in it.polls if poll not in first),
    ]


@called("non-monotonic poll")
def the_second_session_repeats_0_to_49(it: Spoilt) -> None:
    repeat(it)


@called("wrong session")
def the_second_session_is_told_to_repeat_0_to_49(it: Spoilt) -> None:
    repeat(it)
    told_to_begin(it, 1, 0)


@called("non-monotonic poll")
def a_poll_is_given_twice(it: Spoilt) -> None:
    number = it.poll_number()
    it.polls.insert(number + 1, it.polls[number])


@called("non-monotonic poll")
def a_reader_goes_back_in_the_middle_of_a_session(it: Spoilt) -> None:
    number = it.poll_number(session=1)
    it.polls.insert(number, it.polls[number - 2])


@called("skip")
def a_poll_is_left_out(it: Spoilt) -> None:
    del it.polls[it.poll_number()]


@called("wrong session")
def a_session_is_not_recorded(it: Spoilt) -> None:
    del it.sessions[it.chance.randrange(len(it.sessions))]


@called("nothing read")
def nobody_reads(it: Spoilt) -> None:
    it.polls = []


@called("nothing read")
def nobody_even_begins(it: Spoilt) -> None:
    it.polls, it.sessions = [], []


@called("nothing read")
def one_reader_reads_nothing(it: Spoilt) -> None:
    it.polls = [poll for poll in it.polls if poll.consumer != "one"]


@called("not read to the end")
def a_reader_stops_early(it: Spoilt) -> None:
    without(it, 1, range(80, RECORDS))


@called("not read to the end")
def a_reader_never_gets_one_partition(it: Spoilt) -> None:
    it.polls = [poll for poll in it.polls if (poll.consumer, poll.partition) != ("two", 2)]


@called("non-monotonic read")
def the_final_read_goes_back(it: Spoilt) -> None:
    partition, offset = place(it.acked())
    it.logs[partition].append(it.logs[partition][offset])


@called("nothing acknowledged")
def nothing_is_acknowledged(it: Spoilt) -> None:
    for send in it.sends:
        if send.outcome is Outcome.OK:
            send.outcome = Outcome.UNKNOWN


@called("no progress")
def a_partition_stands_still(it: Spoilt) -> None:
    for send in it.sends:
        if send.outcome is Outcome.OK and send.partition == 1:
            send.outcome = Outcome.UNKNOWN


@called("stored in the past")
def a_record_is_sent_after_what_stands_behind_it_was_acknowledged(it: Spoilt) -> None:
    send = it.acked()
    send.began, send.ended = send.began + 100, send.ended + 100


@called("replicas differ")
def a_replica_is_shorter(it: Spoilt) -> None:
    number = it.chance.randrange(len(it.replicas))
    one = it.replicas[number]
    it.replicas[number] = one._replace(size=one.size - 100, digest=b"short", batches=one.batches[:-1])


@called("replicas differ")
def a_replica_has_other_bytes(it: Spoilt) -> None:
    number = it.chance.randrange(len(it.replicas))
    it.replicas[number] = it.replicas[number]._replace(digest=b"other")


def with_receipt(send: Send, **how: Any) -> None:
    assert send.receipt is not None
    old = {name: getattr(send.receipt, name) for name in ("leader", "leader_epoch", "isr", "high_watermark")}
    send.receipt = Receipt(**{**old, **how})


@called("acknowledged too early")
def a_receipt_has_a_low_high_watermark(it: Spoilt) -> None:
    send = it.acked()
    with_receipt(send, high_watermark=send.offset)


@called("acknowledged by too few")
def a_receipt_has_a_small_isr(it: Spoilt) -> None:
    with_receipt(it.acked(), isr=(1,))


@called("acknowledged by too few")
def the_time_in_which_few_were_enough_is_over(it: Spoilt) -> None:
    it.more["lowered"] = [Lowered(10.0, 20.0, 1)]


@called("two leaders in one epoch")
def a_receipt_has_another_leader(it: Spoilt) -> None:
    with_receipt(it.acked(), leader=7)


@called("epoch goes back")
def epochs_go_back_along_the_log(it: Spoilt) -> None:
    found = [*it.replicas[0].batches]
    found[10] = found[10]._replace(leader_epoch=5)
    it.replicas[:3] = [one._replace(batches=found, digest=b"same") for one in it.replicas[:3]]


@called("epoch goes back")
def a_receipt_is_of_an_old_epoch(it: Spoilt) -> None:
    late = [send for send in it.sends if send.outcome is Outcome.OK and send.number > 120]
    with_receipt(it.chance.choice(late), leader_epoch=0, leader=0)


@called("receipt of another epoch")
def a_record_is_of_a_later_epoch_than_its_receipt(it: Spoilt) -> None:
    it.replicas = [
        one._replace(batches=[batch._replace(leader_epoch=batch.leader_epoch + 1) for batch in one.batches])
        for one in it.replicas
    ]


@called("never ended")
def a_delivery_does_not_end(it: Spoilt) -> None:
    it.sends.append(Send("never", 0, 1.0, delivery_timeout_s=90.0))


@called("failed without need")
def a_delivery_fails_at_once(it: Spoilt) -> None:
    send = Send("hasty", 0, 1.0, delivery_timeout_s=90.0)
    send.unheard(2.0, "ClientTimeout")
    it.sends.append(send)


@called("not healed")
def a_broker_ended_by_itself(it: Spoilt) -> None:
    it.more["troubles"] = ["broker1 ended by itself"]


@called("run failed")
def a_thread_died(it: Spoilt) -> None:
    it.more["failures"] = ["the thread 'nemesis' died"]


# --- the promise ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_good_history_has_nothing(seed: int) -> None:
    found = check(good(seed).history())
    assert not found, report(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MUTATIONS)
def test_what_was_spoilt_is_called_by_its_name(name: str, seed: int) -> None:
    kind, mutation = MUTATIONS[name]
    spoilt = good(seed)
    mutation(spoilt)
    found = check(spoilt.history())
    assert kind in {violation.kind for violation in found}, report(found)


def test_every_kind_of_violation_that_is_documented_is_provoked() -> None:
    text = (Path(__file__).parents[3] / "docs" / "chaos.md").read_text()
    section = text[text.index("## What is checked") : text.index("A cluster that takes nothing")]
    rows = re.findall(r"^\| ([a-z ,-]+) \| ", section, re.MULTILINE)
    told = {kind.strip() for row in rows for kind in row.split(",")} - {"violation"}
    of_groups = {"two owners", "committed back", "committed unread", "missed by the group"}  # test_checker_groups.py
    assert {kind for kind, _ in MUTATIONS.values()} | of_groups == told
