"""Fixtures that all tests share."""

import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from ottla.zk.access import Digest
from ottla.zk.session.session import ZkSession
from tests.support.cluster import cluster1 as cluster1
from tests.support.zookeeper import RunningEnsemble, RunningServer, running_ensemble

# A shell that starts this in the background has it ignore Ctrl-C, and all processes that tests start inherit that: what is
# tested by sending SIGINT would never end. A handler, unlike what is ignored, is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are shared and noisy: how long an example took says nothing about the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[str]:
    """The address of one live ZooKeeper server for the whole run; take ``zk_connect`` to have a corner of your own."""
    with running_ensemble(1) as ensemble:
        yield ensemble.connect


@pytest.fixture
def zk_connect(zookeeper_server: str) -> str:
    """A ``zookeeper.connect`` with a chroot that no other test uses."""
    return f"{zookeeper_server}/test-{uuid.uuid4().hex}"


@pytest.fixture
def own_zookeeper() -> Iterator[RunningServer]:
    """A server of this test's own, to be killed and paused."""
    with running_ensemble(1) as ensemble:
        yield ensemble.servers[0]


@pytest.fixture
def zookeeper_ensemble() -> Iterator[RunningEnsemble]:
    """Three servers of this test's own."""
    with running_ensemble(3) as ensemble:
        yield ensemble


OpenSession = Callable[..., Awaitable[ZkSession]]


@pytest.fixture
async def open_session() -> AsyncIterator[OpenSession]:
    """Opens sessions that are closed after the test: ``await open_session(connect, timeout_ms=2000)``."""
    opened: list[ZkSession] = []

    async def open_one(connect: str, timeout_ms: int = 6000, digest: Digest | None = None) -> ZkSession:
        session = ZkSession(connect, timeout_ms=timeout_ms, digest=digest)
        await session.start(30)
        opened.append(session)
        return session

    yield open_one
    for session in reversed(opened):
        await session.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes runs only when it is asked for: ``pytest -m deep tests/model``."""
    if "deep" not in config.getoption("markexpr", ""):
        for item in items:
            if item.get_closest_marker("deep"):
                item.add_marker(pytest.mark.skip(reason="runs only with -m deep"))
