"""A producer whose batches are refused, lost, late and given up: what is in the log then, and what the producer says of it."""

import pytest

from ottla.client.producing.sending.sequences import EPOCH_MAX
from ottla.net.exchange import Answer
from ottla.wire.errors import (
    DuplicateSequenceNumber,
    InvalidRecord,
    NetworkException,
    NotLeaderOrFollower,
    OttlaError,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownProducerId,
)
from ottla.wire.names import TopicPartition
from ottla.wire.requests import ProducePartResult, ProduceResponse
from tests.support.simulated_producer import TOPIC, Connection, SharedLog, World, refuse_sometimes


def check(world, sent):
    """Per partition: the order of sending, nothing twice, and what was acknowledged is where it was said to be."""
    for where, log in world.logs.items():
        mine = [(value, batch, index) for partition, value, batch, index in sent if partition == where.partition]
        places = {value: place for place, (value, _, _) in enumerate(mine)}
        stored = [places[value] for value in log.values]
        assert len(stored) == len(set(stored)), f"stored twice in {where}: {stored}"
        assert stored == sorted(stored), f"out of order in {where}: {stored}"
        for value, batch, index in mine:
            assert batch.done
            try:
                offset = batch.metadata(index).offset
            except DuplicateSequenceNumber:
                raise  # what is sent again is always known to the broker
            except OttlaError:
                continue
            assert log.values[offset] == value, f"{value} was acknowledged at {offset} of {where}"


def no_number_of_a_dead_line_waits(world):
    """Else what stands before it in its queue would wait for it, and it for that."""
    for batch in world.accumulator.unfinished():
        assert batch.in_flight or batch.line is None or not batch.line.dead


def story(seed, *, steps=400, refusals=0.05, forget=0.0, spoiled=0.0, **options):
    world = World(seed, **options)
    with world.clock.installed():
        world.refuse = refuse_sometimes(world, refusals)
        sent = []
        for number in range(steps):
            if world.random.random() < 0.5:
                partition = world.random.randrange(len(world.logs))
                value = b"%d" % number
                batch, index = world.send(partition, value)
                sent.append((partition, value, batch, index))
                if world.random.random() < spoiled and not batch.done and batch.attempts == 0:
                    spoil(batch, index)
            if world.random.random() < forget:
                world.random.choice(list(world.logs.values())).forget()
            world.step()
            no_number_of_a_dead_line_waits(world)
        world.calm_down()
    check(world, sent)
    assert any(log.values for log in world.logs.values())


@pytest.mark.parametrize("seed", range(80))
def test_whatever_happens_records_are_stored_once_and_in_the_order_of_sending(seed):
    story(seed)


@pytest.mark.parametrize("seed", range(50))
def test_the_same_with_small_batches_of_which_many_travel_at_once(seed):
    story(seed, batch_size=20, refusals=0.02)


@pytest.mark.parametrize("seed", range(50))
def test_the_same_with_batches_that_are_split(seed):
    story(seed, batch_max=95, linger_ms=50)


@pytest.mark.parametrize("seed", range(50))
def test_the_same_with_brokers_that_forget_their_producers(seed):
    story(seed, batch_size=20, forget=0.02)


@pytest.mark.parametrize("seed", range(50))
def test_the_same_with_delivery_times_that_are_over_soon(seed):
    story(seed, delivery_timeout_ms=300, batch_size=20)


# --- one thing at a time ---

HERE, THERE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Told:
    """A world in which only what the test says happens; connected, and with a producer id."""

    def __init__(self, **options):
        self.world = World(0, **options)
        self.world.asked_for |= {0, 1, "producer id"}
        self.settle()

    def settle(self):
        with self.world.clock.installed():
            while self.world.asked_for:
                self.world.run_background()

    def send(self, value, partition=0):
        with self.world.clock.installed():
            batch, _ = self.world.send(partition, value)
            self.world.clock.run_soon()
        return batch

    def read(self, broker=0, answer=True):
        connection = self.world.connections[broker]
        with self.world.clock.installed():
            connection.read_one()
            if answer:
                connection.answer_one()

    def wait(self, seconds):
        with self.world.clock.installed():
            until = self.world.clock.now + seconds
            while self.world.clock.now < until:
                self.world.clock.advance(until - self.world.clock.now)

    def calm_down(self):
        with self.world.clock.installed():
            self.world.calm_down()

    def refuse_next(self, error):
        """Refuse one batch, and take the others."""
        errors = [error]
        self.world.refuse = lambda where: errors.pop() if errors else None

    @property
    def log(self):
        return self.world.logs[HERE].values


def id_and_epoch(batch):
    return batch.line and (batch.line.producer_id, batch.line.epoch)


def test_record_behind_one_that_was_given_up_is_not_overtaken_by_a_later_one():
    told = Told(delivery_timeout_ms=1000)
    told.send(b"w")
    told.read()
    given_up = told.send(b"a")
    told.wait(0.5)
    survivor = told.send(b"b")
    told.world.connections[0].requests.popleft()  # a is lost; b will seem to come too early
    told.wait(0.5)
    assert isinstance(given_up.error, OttlaError)
    later = told.send(b"c")
    told.calm_down()
    assert told.log == [b"w", b"b", b"c"]
    assert (survivor.error, later.error) == (None, None)


def test_record_that_was_given_up_and_comes_after_all_is_not_stored_behind_a_later_one():
    told = Told(delivery_timeout_ms=1000, request_timeout_ms=5000)
    told.send(b"w")
    told.read()
    given_up = told.send(b"a")
    request, records, _ = told.world.connections[0].requests.popleft()
    told.wait(1.0)
    assert given_up.done
    told.send(b"b")
    told.calm_down()
    told.world.produce(0, request, records)
    assert told.log == [b"w", b"b"]


def test_what_a_broken_connection_held_and_is_read_late_is_not_stored_twice():
    """That a batch seems to come too early proves that it is not stored yet, not that it never will be."""
    told = Told(delivery_timeout_ms=1000, request_timeout_ms=5000)
    told.send(b"w")
    told.read()
    given_up = told.send(b"a")
    told.wait(0.5)
    behind = told.send(b"b")
    held = [(request, records) for request, records, _ in told.world.connections[0].requests]
    with told.world.clock.installed():
        told.world.connections[0].break_off(NetworkException("lost"), 0)
    told.wait(0.7)
    assert given_up.done
    told.settle()
    told.read()  # b comes again, and seems to come too early
    for request, records in held:
        told.world.produce(0, request, records)
    later = told.send(b"c")
    told.calm_down()
    assert told.log == [b"w", b"a", b"b", b"c"]
    assert isinstance(behind.error, OutOfOrderSequenceNumber)
    assert later.error is None


def test_batch_that_is_refused_for_good_does_not_disturb_other_partitions():
    told = Told(partitions=2)
    for partition in (0, 1):
        told.send(b"first", partition)
        told.read()
    told.refuse_next(InvalidRecord("bad"))
    told.send(b"bad")
    told.read()
    after = [told.send(b"next", where.partition) for where in (HERE, THERE)]
    told.calm_down()
    assert [told.world.logs[where].values for where in (HERE, THERE)] == [[b"first", b"next"]] * 2
    assert [id_and_epoch(batch) for batch in after] == [(1, 1), (1, 0)]


def test_second_request_does_not_overtake_the_first_that_was_refused():
    told = Told()
    first = told.send(b"a")
    second = told.send(b"b")
    told.refuse_next(NotLeaderOrFollower("not yet"))
    told.read(answer=False)
    told.read(answer=False)
    assert told.log == []
    told.calm_down()
    assert told.log == [b"a", b"b"]
    assert (first.base_offset, second.base_offset) == (0, 1)


def test_nothing_goes_to_a_new_leader_while_some_is_on_its_way_to_the_old_one():
    """Else the new leader, which has it all, takes so many new batches that it does not know the old ones any more."""
    told = Told(batch_size=20)
    early = [told.send(b"%d" % number) for number in range(50)]
    told.wait(0.01)
    while told.world.connections[0].requests:
        told.read(answer=False)
    assert len(told.log) >= 5
    told.world.logs[HERE].leader, told.world.logs[HERE].leader_epoch = 1, 1
    told.world.learn_leader(HERE, 1, 1)
    late = [told.send(b"%d" % number) for number in range(50, 150)]
    assert not told.world.connections[1].requests
    for _ in range(20):
        told.wait(0.01)
        while told.world.connections[1].requests:
            told.read(1)
    told.world.disconnect(told.world.connections[0])
    told.calm_down()
    assert [batch.error for batch in early + late] == [None] * 150
    assert told.log == [b"%d" % number for number in range(150)]


@pytest.mark.parametrize("error", [DuplicateSequenceNumber("old"), UnknownProducerId("who?")])
def test_batch_of_which_nobody_knows_whether_it_is_stored_is_not_called_stored(error):
    told = Told()
    told.send(b"first")
    told.read()
    sent = told.send(b"a")
    told.refuse_next(NotLeaderOrFollower("another"))
    told.read()
    told.wait(0.1)
    told.refuse_next(error)
    told.read()
    assert isinstance(sent.error, type(error))
    after = told.send(b"b")
    told.calm_down()
    assert (after.error, id_and_epoch(after)) == (None, (1, 1))
    assert told.log == [b"first", b"b"]


def test_batch_that_was_never_sent_before_goes_under_a_new_epoch_where_the_broker_forgot_its_producer():
    told = Told()
    told.send(b"a")
    told.read()
    told.world.logs[HERE].forget()
    sent = told.send(b"b")
    told.calm_down()
    assert (sent.base_offset, id_and_epoch(sent)) == (1, (1, 1))


def test_topic_that_was_deleted_and_made_anew_under_another_leader_takes_the_next_record():
    told = Told()
    told.send(b"a")
    told.read()
    told.world.logs[HERE] = anew = SharedLog()
    anew.leader, anew.leader_epoch = 1, 1
    sent = told.send(b"b")
    told.calm_down()
    assert sent.error is None
    assert (told.log, id_and_epoch(sent)) == ([b"b"], (1, 1))


def test_acknowledgement_without_an_offset_is_none():
    told = Told()
    sent = told.send(b"a")
    *_, receiver = told.world.connections[0].requests.popleft()
    with told.world.clock.installed():
        receiver(Answer(ProduceResponse([ProducePartResult(0, "", TOPIC, 0)]), []))
    assert isinstance(sent.error, RemoteProtocolError)


def test_epochs_go_on_under_another_producer_id_when_they_are_used_up():
    told = Told()
    line = told.send(b"a").line
    told.read()
    assert line is not None
    line.epoch = EPOCH_MAX
    told.refuse_next(InvalidRecord("bad"))
    told.send(b"bad")
    told.read()
    sent = told.send(b"b")
    assert id_and_epoch(sent) is None, "nothing goes before the new id has come"
    told.calm_down()
    assert (id_and_epoch(sent), sent.error) == ((2, 0), None)


# --- order without idempotence: one request at a time ---

ONE_BY_ONE = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}


def test_one_at_a_time_a_batch_that_is_split_is_not_overtaken():
    told = Told(batch_max=600, batch_size=1000, linger_ms=10, **ONE_BY_ONE)
    values = [b"%03d" % number + b"x" * (330 if number < 4 else 0) for number in range(60)]
    for value in values:
        told.send(value)
    told.calm_down()
    assert told.log == values


def test_one_at_a_time_nothing_goes_to_a_new_leader_while_some_is_on_its_way_to_the_old_one():
    told = Told(**ONE_BY_ONE)
    told.send(b"a")
    told.world.logs[HERE].leader, told.world.logs[HERE].leader_epoch = 1, 1
    told.world.learn_leader(HERE, 1, 1)
    told.send(b"b")
    assert not told.world.connections[1].requests
    told.calm_down()
    assert told.log == [b"a", b"b"]


# --- acks=0 ---


@pytest.mark.parametrize("reconnected", [False, True])
def test_without_acks_nothing_goes_to_a_broker_that_hung_up_before_it_was_asked_who_leads(reconnected):
    told = Told(acks=0)
    told.send(b"a")
    told.world.logs[HERE].leader, told.world.logs[HERE].leader_epoch = 1, 1
    told.send(b"lost")
    assert not told.world.connections[0].usable
    if reconnected:  # by whoever asked that broker something else
        told.world.connections[0] = Connection(0, told.world)
    for value in (b"b", b"c"):
        told.send(value)
    assert "leaders" in told.world.asked_for
    told.settle()
    told.calm_down()
    assert told.log == [b"a", b"b", b"c"]


def test_without_acks_a_leader_that_was_only_restarted_gets_what_comes_next():
    told = Told(acks=0)
    told.send(b"a")
    told.world.connections[0].usable = False
    told.send(b"b")
    told.calm_down()
    assert told.log == [b"a", b"b"]


# --- records that cannot be encoded ---


def spoil(batch, *places):
    for place in places:
        batch.values[place] = "text"


@pytest.mark.parametrize("places", [[0], [6], [3], [2, 3], [0, 6], list(range(7))])
def test_record_that_cannot_be_encoded_fails_alone_and_what_is_behind_it_is_still_counted(places):
    told = Told(linger_ms=10)
    [first] = {told.send(b"%d" % number) for number in range(7)}
    spoil(first, *places)
    told.wait(0.01)
    later = told.send(b"later")
    told.calm_down()
    failed = []
    for index in range(7):
        try:
            assert told.log[first.metadata(index).offset] == b"%d" % index
        except InvalidRecord:
            failed.append(index)
    assert failed == places
    assert told.log == [b"%d" % number for number in range(7) if number not in places] + [b"later"]
    assert (later.error, id_and_epoch(later)) == (None, (1, 0)), "no number is missing"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_with_records_among_them_that_cannot_be_encoded(seed):
    story(seed, linger_ms=30, batch_size=100, spoiled=0.05)
