"""Fixtures that all tests share."""

import os
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from ottla.local import LocalCluster
from ottla.zk.access import Digest
from ottla.zk.ensemble import ports
from ottla.zk.session.session import ZkSession
from tests.support.cluster import cluster1 as cluster1
from tests.support.cluster import complete
from tests.support.distribution import PartSummary, check_grouped, distribute
from tests.support.machine import scaled, slowness
from tests.support.preloaded_processes import brokers_are_forked
from tests.support.zookeeper import RunningEnsemble, RunningServer, running_ensemble

# A shell that starts this in the background has it ignore Ctrl-C, and all processes that tests start inherit that: what is
# tested by sending SIGINT would never end. A handler, unlike what is ignored, is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark sessions of tests are short: with these options their JVM spends a third less on starting and optimizing code.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_JVM)
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)

WORKER_PORTS = 2_500

# Machines are shared and noisy: how long an example took says nothing about the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")


@pytest.fixture(scope="session", autouse=True)
def _forked_brokers() -> Iterator[None]:
    with brokers_are_forked():
        yield


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


def pytest_configure(config: pytest.Config) -> None:
    slowness()  # before workers start, so that they inherit it
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        # A port is chosen some time before its server listens on it: two workers must not choose the same one.
        number = int(worker.removeprefix("gw"))
        ports.PORTS = range(12_000 + number * WORKER_PORTS, 12_000 + (number + 1) * WORKER_PORTS)
    config.pluginmanager.register(PartSummary())


def pytest_report_header() -> str:
    return f"deadlines are multiplied by {slowness():.1f} (tests/support/machine.py)"


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what takes minutes unless ``-m deep`` asks for it, scale time limits, and form groups for the workers."""
    for item in items:
        limit = item.get_closest_marker("timeout")
        seconds = float(limit.args[0]) if limit is not None else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(scaled(seconds)), append=False)
    distribute(items)
    if "deep" not in config.getoption("markexpr", ""):
        for item in items:
            if item.get_closest_marker("deep"):
                item.add_marker(pytest.mark.skip(reason="runs only with -m deep"))


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("loadgroup", False):
        check_grouped(session.items)


# --- no test begins before its cluster is complete -----------------------------------------------------------------------

_shared_clusters: dict[str, LocalCluster] = {}
"""The clusters of several brokers that module and session fixtures hold now, by the name of the fixture."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    value = yield
    if isinstance(value, LocalCluster) and fixturedef.scope != "function" and len(value.brokers) > 1:
        _shared_clusters[fixturedef.argname] = value
    return value


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[object]) -> None:
    if fixturedef.cached_result is not None and isinstance(fixturedef.cached_result[0], LocalCluster):
        _shared_clusters.pop(fixturedef.argname, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Brokers that the test before has stopped or paused run again, and all brokers know each other."""
    if item.get_closest_marker("incomplete_cluster") is None:
        for name in getattr(item, "fixturenames", ()):
            if name in _shared_clusters:
                complete(_shared_clusters[name])
