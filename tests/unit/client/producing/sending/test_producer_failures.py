"""A sender in which something fails that never should: at every step once, and nobody waits for ever."""

import functools
import logging
import sys
from pathlib import Path

import pytest

import ottla.client.producing.sending.sender
from ottla import compiled
from ottla.wire.errors import NetworkException, OttlaError
from ottla.wire.names import TopicPartition
from tests.support.simulated_producer import TOPIC, World

PARTS = {
    "accumulator.py", "batches.py", "batch_completion.py", "delivery_decision.py", "in_flight_requests.py", "leaders.py",
    "record_lists.py", "sender.py", "sequences.py",
}  # fmt: skip
SENDING = Path(ottla.client.producing.sending.sender.__file__).resolve().parent
FOLDERS = {SENDING, SENDING.parent}
LOCKING = {"__enter__", "__exit__", "acquire", "release_lock"}
"""Where a lock is left locked by a failure, nothing can be told any more."""


@functools.cache
def is_part(file):
    path = Path(file).resolve()
    return path.name in PARTS and path.parent in FOLDERS


class Broken(Exception):
    """What must not happen."""


class Interrupted(BaseException):
    """As KeyboardInterrupt, and nobody else's."""


class Failing:
    """Makes the n-th call that the sender's files make fail, before the call is made."""

    def __init__(self, step, error):
        self._left = step
        self._error = error
        self.failed_at = None

    def __enter__(self):
        sys.setprofile(self._called)

    def __exit__(self, *failure):
        sys.setprofile(None)

    def _called(self, frame, event, arg):
        caller = frame if event == "c_call" else frame.f_back
        if event not in ("call", "c_call") or caller is None or self.failed_at:
            return
        if not is_part(caller.f_code.co_filename) or caller.f_code.co_name == "__init__":
            return
        called = getattr(arg, "__name__", "") if event == "c_call" else frame.f_code.co_name
        if called in LOCKING:
            return
        self._left -= 1
        if self._left < 0:
            self.failed_at = f"{Path(caller.f_code.co_filename).name}: {caller.f_code.co_name} calls {called}"
            raise self._error()


def unhappy_story(step, error):
    """All that a sender does: send, split, retry, renumber, give up; with one call of it failing."""
    failing = Failing(step, error)
    world = World(7, batch_max=95, linger_ms=1, batch_size=200, delivery_timeout_ms=1500)
    refusals = iter([NetworkException("again"), None, OttlaError("no"), None, None, NetworkException("again")])
    world.refuse = lambda where: next(refusals, None)
    sent = []

    def do(act, *args):
        """As an event loop does it, which goes on when what it calls fails."""
        with failing:
            try:
                act(*args)
            except Interrupted:
                assert error is Interrupted
            except Broken:
                assert act in (world.sender.wake_here, world.run_background, world.clock.advance), failing.failed_at

    def turn(read=True):
        while world.asked_for:
            do(world.run_background)
        do(world.clock.advance, 0.05)
        for connection in world.busy():
            if read:
                connection.read_one()
            if connection.answers:
                do(connection.answer_one)

    with world.clock.installed():
        for number in range(9):
            for record in range(3):
                sent.append(world.accumulator.add(
                    TopicPartition(TOPIC, number % 2), None, b"%d-%d" % (number, record), None, 0, world.clock.now
                ))  # fmt: skip
            do(world.sender.wake_here)
            turn(read=number % 4 != 0)
            if number == 5:
                for connection in world.busy():
                    do(connection.break_off, NetworkException("lost"), 1)
        for _ in range(2000):
            if not world.accumulator.unfinished():
                break
            turn()
        do(world.clock.run_soon)  # where an interrupt gets out, when the step is over
    return world, sent, failing


def check(world, sent, failed_at):
    assert all(batch.done for batch, _ in sent), failed_at
    for batch, index in sent:
        try:
            told = batch.metadata(index)
        except OttlaError:
            continue
        assert told.offset >= 0, failed_at
    with world.clock.installed():
        after, _ = world.send(0, b"after")
        world.calm_down()
        for connection in world.busy():
            while connection.requests:
                connection.read_one()
            while connection.answers:
                connection.answer_one()
    assert after.error is None, failed_at
    assert world.accumulator.pending_bytes == 0, failed_at
    assert not world.sender._in_flight, failed_at
    assert not +world.sender._in_flight.requests, failed_at


@pytest.mark.skipif(compiled.is_active(), reason="the calls that compiled code makes cannot be seen; OTTLA_PURE=1 can")
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # where a generator is closed by the failure
@pytest.mark.parametrize("error", [Broken, Interrupted])
def test_whatever_call_fails_every_record_is_delivered_or_has_failed_and_the_next_goes_as_always(error, caplog):
    caplog.set_level(logging.CRITICAL, "ottla.client.producing.sending.sender")
    steps = 0
    while True:
        world, sent, failing = unhappy_story(steps, error)
        if failing.failed_at is None:
            break
        check(world, sent, failing.failed_at)
        steps += 1
    assert steps > 0
