"""Clients that nobody closed and nobody has any more end by themselves, and say so."""

import asyncio
import gc
import threading
import time

import pytest

from ottla.client import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from ottla.wire.errors import OttlaError
from tests.support.machine import scaled
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:1"


def drop(clients):
    clients.clear()
    gc.collect()


def wait_until(condition, timeout_s: float = scaled(10.0)):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_blocking_consumer_that_is_dropped_is_closed():
    consumers = [Consumer("t", bootstrap_servers=NOWHERE)]
    main, cluster = consumers[0]._twin._fetch_loop._main, consumers[0]._twin._cluster
    assert main is not None
    with pytest.warns(ResourceWarning, match="a consumer that nobody has any more"):
        drop(consumers)
    wait_until(lambda: main.done() and cluster.closed)


def test_blocking_consumer_that_is_dropped_in_the_middle_of_a_loop_is_closed():
    consumers = [Consumer("t", bootstrap_servers=NOWHERE, consumer_timeout_ms=10)]
    cluster = consumers[0]._twin._cluster
    loops = [iter(consumers.pop())]
    with pytest.warns(ResourceWarning, match="a consumer that nobody has any more"):
        drop(loops)
    wait_until(lambda: cluster.closed)


def test_blocking_producer_that_is_dropped_is_closed():
    producers = [Producer(bootstrap_servers=NOWHERE)]
    cluster = producers[0]._twin._cluster
    with pytest.warns(ResourceWarning, match="a producer that nobody has any more"):
        drop(producers)
    wait_until(lambda: cluster.closed)


def test_blocking_admin_that_is_dropped_is_closed():
    admins = [Admin(bootstrap_servers=NOWHERE)]
    cluster = admins[0]._twin._cluster
    with pytest.warns(ResourceWarning, match="an admin that nobody has any more"):
        drop(admins)
    wait_until(lambda: cluster.closed)


async def test_async_admin_that_is_dropped_is_closed():
    admins = [AsyncAdmin(bootstrap_servers=NOWHERE)]
    cluster = admins[0]._cluster
    with pytest.raises(OttlaError):
        await cluster.refresh()
    with pytest.warns(ResourceWarning, match="an AsyncAdmin that nobody has any more"):
        drop(admins)
    await eventually(lambda: cluster.closed)


async def test_async_consumer_that_is_dropped_is_closed():
    consumers = [AsyncConsumer("t", bootstrap_servers=NOWHERE)]
    await asyncio.sleep(0)
    main, cluster = consumers[0]._fetch_loop._main, consumers[0]._cluster
    assert main is not None
    with pytest.warns(ResourceWarning, match="an AsyncConsumer that nobody has any more"):
        drop(consumers)
    await eventually(lambda: main.done() and cluster.closed)


async def test_async_producer_that_is_dropped_is_closed():
    producers = [AsyncProducer(bootstrap_servers=NOWHERE)]
    cluster = producers[0]._cluster
    with pytest.warns(ResourceWarning, match="an AsyncProducer that nobody has any more"):
        drop(producers)
    await eventually(lambda: cluster.closed)


def test_dropped_after_its_event_loop_is_closed_it_only_says_so():
    async def make():
        return [AsyncConsumer("t", bootstrap_servers=NOWHERE), AsyncProducer(bootstrap_servers=NOWHERE)]

    clients = asyncio.run(make())
    with pytest.warns(ResourceWarning, match="nobody has any more"):
        drop(clients)


@pytest.mark.parametrize("make", [AsyncAdmin, AsyncConsumer, AsyncProducer])
async def test_closed_client_is_dropped_without_a_word(make, recwarn):
    client = make(bootstrap_servers=NOWHERE)
    await client.close()
    del client
    gc.collect()
    assert [warning for warning in recwarn if warning.category is ResourceWarning] == []
