"""What becomes of a batch, case by case: what it is, what came, and the verdict."""

import dataclasses

import pytest

from ottla.client.producing.batches import ProducerBatch, SequenceLine
from ottla.client.producing.sending.delivery_decision import (
    STORED,
    GiveUp,
    RetireLine,
    Retry,
    Split,
    TimedOut,
    after_answer,
    after_loss,
    in_halves,
    in_retired_line,
)
from ottla.wire.errors import (
    ClientClosed,
    InvalidProducerEpoch,
    InvalidRecord,
    MessageTooLarge,
    NetworkException,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    RequestTimedOut,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ProducePartResult

NOW = 100.0


def batch(*, records=1, numbered=True, older=False, line_dead=False, may_be_stored=False, late=False):
    """A batch whose answer has come; ``older``: one of its line before it is not done; ``late``: its time is over."""
    before, made = (ProducerBatch(TopicPartition("t", 0), 0.0, NOW if late else NOW + 1) for _ in range(2))
    made.values = [b"v"] * records
    made.may_be_stored = may_be_stored
    if numbered:
        made.line = SequenceLine(7, 0)
        made.line.dead = made.line.broken = line_dead
        made.line.unfinished = {before: None, made: None} if older else {made: None}
    return made


def stored(offset):
    return lambda batch, closed: after_answer(batch, ProducePartResult(0, "", "t", 0, base_offset=offset), closed, NOW)


def refused(error, topic_id=""):
    part = ProducePartResult(error.code, "no", "t", 0, topic_id=topic_id)
    return lambda batch, closed: after_answer(batch, part, closed, NOW)


def lost(error, *, was_sent=True, hung_up=False):
    return lambda batch, closed: after_loss(batch, error("lost"), was_sent, hung_up, closed, NOW)


TOO_LARGE = refused(MessageTooLarge)
TOO_EARLY = refused(OutOfOrderSequenceNumber)
LEADS_NO_MORE = refused(NotLeaderOrFollower, topic_id="id")

OPEN = [
    # what happens to whom                                            the batch                    what came       the verdict
    ("an answer with an offset proves that it is stored", batch(), stored(0), STORED),
    ("also where its delivery time is over meanwhile", batch(late=True), stored(5), STORED),
    ("also where others of its line were refused", batch(line_dead=True), stored(5), STORED),
    ("an answer without an offset proves nothing", batch(), stored(-1), GiveUp(RemoteProtocolError())),

    ("a batch that is too large goes in halves", batch(records=2), TOO_LARGE, Split()),
    ("one record that is too large fails", batch(), TOO_LARGE, GiveUp(MessageTooLarge())),
    ("halves of a dead line get new numbers", batch(records=2, line_dead=True), TOO_LARGE, Split(new_numbers=True)),
    ("unless the whole may be stored",
     batch(records=2, line_dead=True, may_be_stored=True), TOO_LARGE, GiveUp(MessageTooLarge())),

    ("a bad record fails at once", batch(), refused(InvalidRecord), GiveUp(InvalidRecord())),
    ("a broker that leads no more is not asked again", batch(), LEADS_NO_MORE,
     Retry(NotLeaderOrFollower(), refresh=True)),
    ("one that says so without naming the topic may have written it", batch(), refused(NotLeaderOrFollower),
     Retry(NotLeaderOrFollower(), refresh=True, may_be_stored=True)),
    ("one that waited in vain for its followers has written it", batch(), refused(RequestTimedOut),
     Retry(RequestTimedOut(), may_be_stored=True)),
    ("one with too few followers has not", batch(), refused(NotEnoughReplicas), Retry(NotEnoughReplicas())),
    ("nor one that does not know the topic", batch(), refused(UnknownTopicOrPartition),
     Retry(UnknownTopicOrPartition(), refresh=True)),
    ("what may be stored once stays so", batch(may_be_stored=True), LEADS_NO_MORE,
     Retry(NotLeaderOrFollower(), refresh=True, may_be_stored=True)),
    ("what is refused when its time is over is late", batch(late=True), LEADS_NO_MORE, TimedOut(NotLeaderOrFollower())),
    ("what comes back to a dead line gets new numbers", batch(line_dead=True), LEADS_NO_MORE,
     Retry(NotLeaderOrFollower(), refresh=True, new_numbers=True)),
    ("and fails if it may be stored", batch(line_dead=True), refused(NotLeaderOrFollower), GiveUp(NotLeaderOrFollower())),

    ("a first of its line that seems too early retires the line", batch(), TOO_EARLY,
     RetireLine(OutOfOrderSequenceNumber(), Retry(OutOfOrderSequenceNumber(), new_numbers=True))),
    ("also where the broker forgot the producer", batch(), refused(UnknownProducerId),
     RetireLine(UnknownProducerId(), Retry(UnknownProducerId(), new_numbers=True))),
    ("one with older ones before it waits for those", batch(older=True), TOO_EARLY, Retry(OutOfOrderSequenceNumber())),
    ("under new numbers if its line is dead already", batch(older=True, line_dead=True), TOO_EARLY,
     Retry(OutOfOrderSequenceNumber(), new_numbers=True)),
    ("one that may be stored gets no new numbers", batch(may_be_stored=True), TOO_EARLY,
     RetireLine(OutOfOrderSequenceNumber(), GiveUp(OutOfOrderSequenceNumber()))),
    ("one that is late takes its line with it all the same", batch(late=True), TOO_EARLY,
     RetireLine(OutOfOrderSequenceNumber(), TimedOut(OutOfOrderSequenceNumber()))),
    ("one without numbers cannot seem too early", batch(numbered=False), TOO_EARLY, GiveUp(OutOfOrderSequenceNumber())),

    ("what is lost may be stored", batch(), lost(NetworkException),
     Retry(NetworkException(), refresh=True, may_be_stored=True)),
    ("what was never sent is not", batch(), lost(NetworkException, was_sent=False),
     Retry(NetworkException(), refresh=True)),
    ("what is lost when its time is over is late", batch(late=True), lost(NetworkException), TimedOut(NetworkException())),
    ("what is lost of a dead line fails", batch(line_dead=True), lost(NetworkException), GiveUp(NetworkException())),
    ("a lost connection that we closed for another's sake is no reason to fail", batch(),
     lost(ClientClosed, hung_up=True), Retry(ClientClosed(), refresh=True, may_be_stored=True)),
    ("an answer that makes no sense is", batch(), lost(RemoteProtocolError), GiveUp(RemoteProtocolError())),
]  # fmt: skip

CLOSED = [
    ("what is stored is stored", batch(), stored(0), STORED),
    ("nothing is split", batch(records=2), TOO_LARGE, GiveUp(MessageTooLarge())),
    ("nothing gets new numbers", batch(), TOO_EARLY, GiveUp(OutOfOrderSequenceNumber())),
    ("nothing goes to another leader", batch(), LEADS_NO_MORE, GiveUp(NotLeaderOrFollower())),
    ("nothing that is lost is sent again", batch(), lost(NetworkException), GiveUp(NetworkException())),
]


def plain(verdict):
    """A verdict with the kinds of its errors instead of the errors."""
    inside = {field.name: getattr(verdict, field.name) for field in dataclasses.fields(verdict)}
    return type(verdict), {
        name: type(value) if isinstance(value, OttlaError) else plain(value) if name == "then" else value
        for name, value in inside.items()
    }


@pytest.mark.parametrize(("made", "came", "expected"), [row[1:] for row in OPEN], ids=[row[0] for row in OPEN])
def test_what_becomes_of_a_batch(made, came, expected):
    assert plain(came(made, False)) == plain(expected)


@pytest.mark.parametrize(("made", "came", "expected"), [row[1:] for row in CLOSED], ids=[row[0] for row in CLOSED])
def test_what_becomes_of_a_batch_of_a_closed_producer(made, came, expected):
    assert plain(came(made, True)) == plain(expected)


def test_stored_is_one_verdict_for_all():
    assert stored(0)(batch(), False) is stored(9)(batch(), False) is STORED


@pytest.mark.parametrize(("error", "new_id"), [(InvalidProducerEpoch, True), (OutOfOrderSequenceNumber, False)])
def test_only_a_fenced_epoch_needs_another_producer_id(error, new_id):
    verdict = refused(error)(batch(), False)
    assert isinstance(verdict, RetireLine)
    assert verdict.new_producer_id is new_id


def test_those_that_wait_in_a_retired_line_get_new_numbers_unless_they_may_be_stored():
    error = OutOfOrderSequenceNumber("too early")
    assert in_retired_line(batch(), error) is None
    failed = in_retired_line(batch(may_be_stored=True), error)
    assert failed is not None
    assert "whether that was stored is not known" in str(failed.error)


def test_batch_that_cannot_be_encoded_is_split_as_one_that_is_too_large():
    assert in_halves(batch(records=2), InvalidRecord("bad")) == Split()
    assert in_halves(batch(records=2, line_dead=True), InvalidRecord("bad")) == Split(new_numbers=True)


def everything_in(thing):
    return {
        name: getattr(thing, name) for name in dir(thing) if name[:2] != "__" and not callable(getattr(thing, name))
    }


def test_deciding_changes_nothing():
    made = batch(records=2, older=True, may_be_stored=True)
    before = everything_in(made), everything_in(made.line)
    assert {"may_be_stored", "attempts", "done"} < before[0].keys()
    assert {"dead", "broken", "unfinished"} < before[1].keys()
    for _, _, came, _ in OPEN:
        came(made, False)
    assert (everything_in(made), everything_in(made.line)) == before
