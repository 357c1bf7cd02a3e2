"""A session on a live server: requests, multis, watches, and what happens when the server goes away."""

import asyncio
import os
import struct
import time

import pytest

from ottla.zk.ensemble.ports import free_ports
from ottla.zk.errors import (
    BadVersion,
    ConnectionLost,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    RequestTooLarge,
    RolledBack,
    SessionExpired,
    ZkUnavailable,
)
from ottla.zk.operations import Check, Create, Delete, SetData
from ottla.zk.session.pipeline import WatchEvent
from ottla.zk.session.session import SessionState, ZkSession
from ottla.zk.watches import ChildrenWatch, NodeWatch
from tests.conftest import OpenSession
from tests.support.machine import scaled
from tests.support.waiting import eventually
from tests.support.zookeeper import RunningEnsemble, RunningServer

pytestmark = pytest.mark.cluster


async def test_requests_give_typed_answers(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    assert await session.create("/a/b", b"1", make_parents=True) == "/a/b"
    data, stat = await session.get("/a/b")
    assert (data, stat.version, stat.ephemeral_owner) == (b"1", 0, 0)
    assert (await session.set("/a/b", b"22", 0)).version == 1
    assert await session.children("/a") == ["b"]
    numbered = await session.create("/a/n-", sequence=True)
    assert numbered == "/a/n-0000000001"
    with pytest.raises(BadVersion):
        await session.set("/a/b", b"3", 0)
    with pytest.raises(NodeExists):
        await session.create("/a/b")
    with pytest.raises(NoNode):
        await session.get("/nothing")
    with pytest.raises(NoNode):
        await session.create("/no/parent")
    with pytest.raises(NotEmpty):
        await session.delete("/a", 0)
    assert await session.exists("/nothing") is None
    await session.delete("/a/b", 1)
    assert await session.exists("/a/b") is None


async def test_two_chroots_do_not_see_each_other(zookeeper_server: str, open_session: OpenSession) -> None:
    name = f"chroot-{os.getpid()}-{time.time_ns()}"
    one = await open_session(f"{zookeeper_server}/{name}/one/,{zookeeper_server}/{name}/one")
    two = await open_session(f"{zookeeper_server}/{name}/two")
    above = await open_session(f"{zookeeper_server}/{name}")
    await one.create("/x", b"of one")
    assert await two.exists("/x") is None
    assert await above.children("/") == ["one", "two"]
    assert (await above.get("/one/x"))[0] == b"of one"


async def test_failed_multi_tells_results_one_by_one_and_changes_nothing(
    zk_connect: str, open_session: OpenSession
) -> None:
    session = await open_session(zk_connect)
    await session.create("/a", b"1")
    with pytest.raises(MultiFailed) as failed:
        await session.multi([Create("/b"), SetData("/a", b"2", 7), Check("/a", 0)])
    assert [type(error) for error in failed.value.results] == [RolledBack, BadVersion, RolledBack]
    assert (failed.value.index, type(failed.value.cause)) == (1, BadVersion)
    assert "/a" in str(failed.value)
    assert await session.exists("/b") is None
    results = await session.multi([Create("/b", b"x", ephemeral=True), SetData("/a", b"2", 0), Check("/a", 1)])
    assert results[0] == "/b"
    assert results[1] == await session.exists("/a")
    stat = await session.exists("/b")
    assert stat is not None
    assert stat.ephemeral_owner == session.session_id
    await session.multi([Delete("/b", 0), Delete("/a", 1)])
    assert await session.children("/") == []


async def test_too_large_request_is_refused_before_it_kills_the_connection(
    zk_connect: str, open_session: OpenSession
) -> None:
    session = await open_session(zk_connect)
    with pytest.raises(RequestTooLarge):
        await session.create("/big", b"x" * 1_000_001)
    with pytest.raises(RequestTooLarge):
        await session.multi([Create(f"/{i}", b"x" * 100_000) for i in range(10)])
    await session.create("/big", b"x" * 999_000)
    assert session.connected


async def test_more_requests_than_the_window_are_answered_in_order(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    await session.create("/counter", b"")
    stats = await asyncio.gather(*(session.set("/counter", b"x", version) for version in range(1000)))
    assert [stat.version for stat in stats] == list(range(1, 1001))


async def test_watches_are_called_once_on_the_event_loop(zk_connect: str, open_session: OpenSession) -> None:
    session, other = await open_session(zk_connect), await open_session(zk_connect)
    loop_thread = asyncio.get_running_loop()
    events: list[tuple[str, WatchEvent, bool]] = []

    def note(name: str, event: WatchEvent) -> None:
        events.append((name, event, asyncio.get_running_loop() is loop_thread))

    assert await session.exists("/a", lambda event: note("exists", event)) is None
    await session.children("/", lambda event: note("children", event))
    await other.create("/a", b"1")
    await eventually(lambda: len(events) == 2)
    assert set(events) == {("exists", WatchEvent.CREATED, True), ("children", WatchEvent.CHILD, True)}
    await session.get("/a", lambda event: note("get", event))
    await other.set("/a", b"2", 0)
    await other.set("/a", b"3", 1)
    await other.delete("/a", 2)
    await session.sync("/a")
    await eventually(lambda: len(events) == 3)
    assert events[2] == ("get", WatchEvent.CHANGED, True)


async def test_nobody_answers_names_the_servers_tried() -> None:
    ports = free_ports(2)
    session = ZkSession(f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/kafka")
    with pytest.raises(ZkUnavailable, match=f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"):
        await session.start(0.5)


async def _close_session(session: ZkSession) -> None:
    """Close a session from another connection, as anybody may who knows its id and password: for its client, it has expired.

    Both requests go out at once: the client connects again as soon as the server has moved the session to this connection.
    """
    session_id, password = session._client.client_id
    connect = struct.pack(">iqiqi16s?", 0, 0, 2000, session_id, len(password), password, False)
    close = struct.pack(">ii", 1, -11)
    host, _, port = session.connect.servers.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"".join(len(frame).to_bytes(4) + frame for frame in (connect, close)))
    await reader.read()  # until the server hangs up
    writer.close()


async def test_session_that_the_server_expired_goes_on_as_a_new_one(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect, timeout_ms=2000)
    states: list[SessionState] = []
    session.subscribe(states.append)
    first = session.session_id
    await session.create("/ephemeral", ephemeral=True)
    watched = asyncio.Event()
    await session.exists("/never", lambda _: watched.set())
    await _close_session(session)
    await eventually(lambda: SessionState.CONNECTED in states)
    assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert watched.is_set()
    assert session.session_id != first
    assert session.is_own(first)
    assert session.is_own(session.session_id)
    assert session.surely_alive()
    assert await session.exists("/ephemeral") is None


async def test_frozen_server_expires_the_session_by_our_own_clock(
    own_zookeeper: RunningServer, open_session: OpenSession
) -> None:
    session = await open_session(own_zookeeper.server.address, timeout_ms=1000)
    assert session.timeout_s == 1.0
    seen: list[tuple[SessionState, float, bool]] = []
    session.subscribe(lambda state: seen.append((state, time.monotonic(), session.surely_alive())))
    own_zookeeper.process.pause()
    expires_at = session.expires_at
    # kazoo takes requests for a sign of life, its own ones: a busy client never notices a frozen server
    asked = [asyncio.create_task(session.get("/"))]
    while not seen:
        await asyncio.sleep(0.02)
        asked.append(asyncio.create_task(session.get("/")))
        assert time.monotonic() < expires_at + 5
    await eventually(lambda: len(seen) == 2)
    (suspended, _, alive_then), (expired, at, alive_after) = seen
    assert (suspended, expired) == (SessionState.SUSPENDED, SessionState.EXPIRED)
    assert alive_then
    assert not alive_after
    assert not session.surely_alive()
    assert expires_at <= at < expires_at + 1.0
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    # The server may have answered the first ones before the signal reached it.
    failures = {type(outcome) for outcome in outcomes if not isinstance(outcome, tuple)}
    assert failures
    assert failures <= {ConnectionLost, SessionExpired, ZkUnavailable}
    with pytest.raises(ZkUnavailable):
        await session.get("/")
    own_zookeeper.process.resume()
    await eventually(lambda: seen[-1][0] is SessionState.CONNECTED)
    assert [state for state, _, _ in seen] == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    assert session.surely_alive()


async def test_heartbeat_keeps_an_idle_session_surely_alive(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect, timeout_ms=1000)
    expires_at = session.expires_at
    await eventually(lambda: session.expires_at > expires_at + 1.0, scaled(5))
    assert session.surely_alive()


async def test_watches_survive_a_server_restart(own_zookeeper: RunningServer, open_session: OpenSession) -> None:
    session = await open_session(own_zookeeper.server.address, timeout_ms=10_000)
    await session.create("/node", b"1")
    values: list[tuple[bytes | None, int]] = []
    names: list[list[str]] = []
    node = NodeWatch(session, "/node", lambda data, stat: values.append((data, stat.version if stat else -1)))
    children = ChildrenWatch(session, "/folder", names.append)
    await node.start()
    await children.start()
    await eventually(lambda: values == [(b"1", 0)] and names == [[]])
    own_zookeeper.process.kill()
    own_zookeeper.process.wait(scaled(10))
    await eventually(lambda: not session.connected)
    await own_zookeeper.start_again()
    await session.wait_connected(30)
    await session.set("/node", b"1", 0)
    await eventually(lambda: values == [(b"1", 0), (b"1", 1)])
    await session.delete("/node", 1)
    await eventually(lambda: values[-1] == (None, -1))
    await session.create("/folder/b", make_parents=True)
    await eventually(lambda: names[-1] == ["b"])
    await session.create("/folder/a")
    await eventually(lambda: names[-1] == ["a", "b"])
    await node.stop()
    await children.stop()
    await session.create("/node", b"2")
    await session.sync("/node")
    assert values[-1] == (None, -1)


async def test_failing_watch_callback_is_called_again(zk_connect: str, open_session: OpenSession) -> None:
    session = await open_session(zk_connect)
    calls: list[bytes | None] = []

    def fail(data: bytes | None, _: object) -> None:
        calls.append(data)
        raise ValueError("a bug in the callback")

    watch = NodeWatch(session, "/node", fail)
    await watch.start()
    await eventually(lambda: calls == [None])
    await session.create("/node", b"1")
    await eventually(lambda: calls == [None, b"1"])
    await watch.stop()


async def test_one_of_three_servers_may_die(zookeeper_ensemble: RunningEnsemble, open_session: OpenSession) -> None:
    session = await open_session(zookeeper_ensemble.connect, timeout_ms=6000)
    modes = [await running.server.is_serving() for running in zookeeper_ensemble.servers]
    assert sorted(str(mode) for mode in modes) == ["follower", "follower", "leader"]
    session_id = session.session_id
    await session.create("/ephemeral", b"1", ephemeral=True)
    leader = zookeeper_ensemble.servers[modes.index("leader")]
    leader.process.kill()
    leader.process.wait(scaled(10))

    async def still_there() -> bool:
        try:
            await session.wait_connected(30)
            await session.sync("/")
            return (await session.get("/ephemeral"))[0] == b"1"
        except (ConnectionLost, ZkUnavailable):
            return False

    deadline = time.monotonic() + 30
    while not await still_there():
        assert time.monotonic() < deadline
    assert session.session_id == session_id
    assert (await session.set("/ephemeral", b"2", 0)).version == 1
    assert await leader.server.is_serving() is None
    await leader.start_again()
    assert await leader.server.is_serving() == "follower"


async def test_closed_session_takes_its_ephemerals_along_at_once(zk_connect: str, open_session: OpenSession) -> None:
    watcher = await open_session(zk_connect)
    session = ZkSession(zk_connect)
    await session.start(10)
    await session.create("/ephemeral", ephemeral=True)
    gone = asyncio.Event()
    assert await watcher.exists("/ephemeral", lambda _: gone.set()) is not None
    await session.close()
    await asyncio.wait_for(gone.wait(), 2)
    with pytest.raises(ZkUnavailable):
        await session.get("/")
    with pytest.raises(ZkUnavailable):
        await session.wait_connected(1)
