"""What the end of a process does to clients that nobody closed."""

import logging
import warnings

import pytest

from ottla.client import Producer, loop_thread

NOWHERE = "127.0.0.1:1"


class Unclosable:
    def _close_at_exit(self, timeout):
        raise RuntimeError("cannot be closed")


@pytest.fixture
def thread(monkeypatch):
    """A loop thread that only the clients of this test have."""
    made = loop_thread.LoopThread()
    monkeypatch.setattr(loop_thread, "_shared", made)
    yield made
    made.loop.call_soon_threadsafe(made.loop.stop)


def test_warning_that_is_an_error_keeps_no_client_from_being_closed(thread):
    producers = [Producer(bootstrap_servers=NOWHERE) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceWarning, match="3 producers were not closed before the process ended"):
            loop_thread._at_exit()
    assert [producer._closed for producer in producers] == [True] * 3


def test_client_that_cannot_be_closed_keeps_no_other_from_it(thread, caplog):
    unclosable = [Unclosable() for _ in range(3)]
    producers = [Producer(bootstrap_servers=NOWHERE) for _ in range(3)]
    for each in unclosable:
        thread.clients.add(each)
    with caplog.at_level(logging.WARNING), pytest.warns(ResourceWarning):
        loop_thread._at_exit()
    assert [producer._closed for producer in producers] == [True] * 3
    assert caplog.text.count("cannot be closed") == 3
