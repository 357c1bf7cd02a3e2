"""What brokers write in ZooKeeper is theirs alone: others may read it, but for the secret, and change nothing."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire.names import TopicPartition
from ottla.zk.access import ALL, CREATE, READ, AclEntry, AclId, Digest
from ottla.zk.ensemble.ports import free_ports
from ottla.zk.errors import NotAuthorized
from ottla.zk.isr_notifications import notify_isr_change
from ottla.zk.membership import cluster_secret, ensure_persistent_paths
from ottla.zk.operations import Create
from ottla.zk.session.session import SessionState, ZkSession
from ottla.zk.tree_acl import set_tree_acl
from tests.support.machine import scaled
from tests.support.observer import SHORT, WAIT_S, Observer, observed
from tests.support.rights import kazoo, open_to_others, tree, trespasses

pytestmark = pytest.mark.cluster

US = Digest("ottla:open:sesame")


@pytest.fixture(scope="module")
def seen() -> Iterator[Observer]:
    with LocalCluster(brokers=3, broker_config=SHORT) as cluster, observed(cluster) as observer:
        yield observer


# --- a live cluster -------------------------------------------------------------------------------------------------------


def test_every_znode_of_a_cluster_that_was_used_belongs_to_its_brokers(seen: Observer) -> None:
    admin, cluster = seen.admin, seen.cluster
    for name in ("kept", "gone"):
        admin.create_topic(name, partitions=3, replication_factor=2, config={"retention.ms": "60000"}, timeout=WAIT_S)
        seen.produce(name, [b"1", b"2", b"3"])  # an idempotent producer: the block of producer ids is written too
    admin.delete_topic("gone", timeout=WAIT_S)
    admin.add_partitions("kept", 5, timeout=WAIT_S)
    admin.alter_topic_config("kept", {"retention.ms": "70000"}, timeout=WAIT_S)
    unused = next(broker for broker in cluster.brokers if broker not in seen.assignment("kept")[0])
    admin.reassign("kept", 0, [unused, seen.assignment("kept")[0][0]], timeout=WAIT_S)
    seen.wait_in_sync("kept")
    cluster.kill(seen.wait_controller())  # another controller, smaller ISRs, a new registration
    seen.wait_controller()
    seen.start_all()
    seen.wait_in_sync("kept")
    found = tree(seen.zk)
    assert {"/controller", "/controller_epoch", "/brokers/ids/0", "/ottla/secret", "/latest_producer_id_block"} <= set(
        found
    )
    assert "/brokers/topics/kept/partitions/4/state" in found
    assert not any("gone" in path for path in found)
    assert open_to_others(seen.zk, cluster.zookeeper_digest) == {}


def test_a_stranger_reads_topics_but_not_the_secret_and_changes_nothing(seen: Observer) -> None:
    seen.admin.create_topic("readable", partitions=2, timeout=WAIT_S)
    paths = tree(seen.zk)
    for other in (None, Digest("ottla:a-guess"), Digest(f"somebody:{seen.cluster.zookeeper_digest.text}")):
        with kazoo(seen.cluster.zookeeper, other) as stranger:
            assert b'"leader"' in stranger.get("/brokers/topics/readable/partitions/0/state")[0]
            assert sorted(stranger.get_children("/brokers/ids")) == ["0", "1", "2"]
            for hidden in ("/ottla/secret", "/config/users"):
                for look in (stranger.get, stranger.get_children, stranger.get_acls):
                    with pytest.raises(NoAuthError):
                        look(hidden)
            hashes = {entry.id.id for entry in stranger.get_acls("/brokers")[0]}
            assert hashes == {"ottla:x", "anyone"}, "nobody can try passwords on it at home"
            assert trespasses(stranger, paths) == []
    assert tree(seen.zk) == paths


def test_the_password_is_neither_in_logs_nor_in_arguments_nor_in_the_environment(seen: Observer) -> None:
    cluster = seen.cluster
    password = cluster.zookeeper_digest.text.partition(":")[2]
    assert len(password) >= 32
    assert (cluster.folder / "zookeeper-digest").stat().st_mode & 0o777 == 0o600
    assert sorted(path for path in cluster.folder.rglob("*") if path.is_file() and password in _text(path)) == [
        cluster.folder / "zookeeper-digest"
    ]
    for broker in cluster.brokers:
        for kind in ("cmdline", "environ"):
            assert password not in _text(Path(f"/proc/{cluster.pid(broker)}/{kind}"))


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


@pytest.mark.parametrize("who", ["another password", "another user", "nobody"])
def test_a_broker_that_is_somebody_else_ends_at_once_and_says_why(seen: Observer, tmp_path: Path, who: str) -> None:
    digest = {"another password": "ottla:a-guess", "another user": "somebody:a-guess", "nobody": ""}[who]
    ports = free_ports(2)
    properties = {
        "broker.id": "9",
        "zookeeper.connect": seen.cluster.zookeeper,
        "zookeeper.set.acl": "true" if digest else "false",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]}",
        "admin.listener": f"http://127.0.0.1:{ports[1]}",
        "log.dirs": str(tmp_path),
    }
    flags = [part for key, value in properties.items() for part in ("-o", f"{key}={value}")]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "ottla.broker", "--log-level", "DEBUG", *flags],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
        env={**child_environment(), **({"OTTLA_ZOOKEEPER_DIGEST": digest} if digest else {})},
    )  # fmt: skip
    assert ended.returncode == 1
    # Which one comes first depends on the server: newer ones do not even say whether a znode exists.
    assert re.search(r"error: NotAuthorized on /(ottla/secret|config/users): .* another user", ended.stderr)
    assert "hint: is zookeeper.digest" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "a-guess" not in ended.stderr
    assert time.monotonic() - began < scaled(10)
    assert seen.broker_ids() == [0, 1, 2]


# --- one session ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def connect(zk_connect: str) -> str:
    """A chroot of two names: the upper one may be others' too."""
    return f"{zk_connect}/upper/own"


async def test_every_way_to_create_a_znode_makes_it_ours(connect: str) -> None:
    servers, slash, chroot = connect.partition("/")
    session = ZkSession(connect, digest=US, sets_acl=True)
    await session.start(WAIT_S)
    try:
        await ensure_persistent_paths(session)
        await cluster_secret(session)
        await session.create("/brokers/plain", b"1")
        await session.create("/brokers/made/with/parents", b"1", make_parents=True)
        await session.create("/brokers/ids/1", b"1", ephemeral=True)
        await session.create_if_missing("/brokers/a/b")
        await session.multi(
            [Create("/brokers/m", b""), Create("/brokers/m/n", b""), Create("/controller", b"", ephemeral=True)]
        )
        await notify_isr_change(session, [TopicPartition("t", 0)])
        with kazoo(servers, US) as client:
            own = slash + chroot
            found = {path.removeprefix(own) for path in tree(client, own)}
            assert {"/brokers/made/with", "/brokers/ids/1", "/brokers/m/n", "/controller", "/ottla/secret", ""} <= found
            assert "/isr_change_notification/isr_change_0000000000" in found
            assert open_to_others(client, US, own) == {}
        with kazoo(servers) as stranger:
            stranger.create(f"{own.rpartition('/')[0]}/another", b"")  # what stands above a chroot is not ours
    finally:
        await session.close()


async def test_a_session_without_acls_leaves_all_open(connect: str) -> None:
    servers, slash, chroot = connect.partition("/")
    session = ZkSession(connect, digest=US)
    await session.start(WAIT_S)
    try:
        await ensure_persistent_paths(session)
        with kazoo(servers) as stranger:
            stranger.create(f"{slash}{chroot}/brokers/ids/7", b"", ephemeral=True)
    finally:
        await session.close()


async def test_rights_outlast_a_reconnect_and_a_lost_session(zk_connect: str) -> None:
    session = ZkSession(zk_connect, digest=US, sets_acl=True)
    await session.start(WAIT_S)
    happened = {state: asyncio.Event() for state in SessionState}
    session.subscribe(lambda state: happened[state].set())

    async def until(state: SessionState) -> None:
        async with asyncio.timeout(WAIT_S):
            await happened[state].wait()
            await session.wait_connected()

    try:
        await session.create("/closed", b"0")
        session._handler.hang_up()
        await until(SessionState.SUSPENDED)
        await session.set("/closed", b"1", 0)
        await asyncio.to_thread(_end_session, zk_connect, session._client.client_id)
        await until(SessionState.EXPIRED)
        await session.set("/closed", b"2", 1)
        with kazoo(zk_connect) as stranger, pytest.raises(NoAuthError):
            stranger.set("/closed", b"3")
    finally:
        await session.close()


def _end_session(connect: str, client_id: tuple[int, bytes]) -> None:
    """As a timeout would; and whoever takes a session over has the session, but not its user's rights."""
    thief = KazooClient(hosts=connect, client_id=client_id)
    thief.start(timeout=WAIT_S)
    assert thief.client_id[0] == client_id[0]
    with pytest.raises(NoAuthError):
        thief.set("/closed", b"stolen")
    thief.stop()
    thief.close()


async def test_want_of_rights_is_a_typed_error_with_a_hint(zk_connect: str) -> None:
    ours, stranger = (
        ZkSession(zk_connect, digest=US, sets_acl=True),
        ZkSession(zk_connect, digest=Digest("ottla:other")),
    )
    await ours.start(WAIT_S)
    await stranger.start(WAIT_S)
    try:
        await ours.create("/ottla/secret", b"hush", make_parents=True)
        for attempt in (
            stranger.get("/ottla/secret"),
            stranger.create("/ottla/more"),
            stranger.delete("/ottla/secret", 0),
        ):
            with pytest.raises(NotAuthorized, match="/ottla") as refused:
                await attempt
            assert refused.value.hint is not None
            assert "zookeeper.digest" in refused.value.hint
    finally:
        await ours.close()
        await stranger.close()


async def test_a_root_with_rights_of_its_own_is_left_and_told_of(
    zk_connect: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = ZkSession(zk_connect, digest=US, sets_acl=True)
    await session.start(WAIT_S)
    try:
        strange = (AclEntry(ALL, US.acl_id), AclEntry(READ | CREATE, AclId("world", "anyone")))
        await session.set_acl("/", strange)
        await ensure_persistent_paths(session)
        assert await session.get_acl("/") == strange
        assert "others may write to the zookeeper root" in caplog.text
    finally:
        await session.close()


# --- the tool -------------------------------------------------------------------------------------------------------------


async def test_a_tree_is_closed_and_opened_again_and_again(connect: str) -> None:
    servers, slash, chroot = connect.partition("/")
    own = slash + chroot
    session = ZkSession(connect, digest=US)
    await session.start(WAIT_S)
    try:
        await ensure_persistent_paths(session)
        await cluster_secret(session)
        await session.create("/somebody-elses", b"")
        with kazoo(servers) as client:
            count = len(tree(client, own)) - 1
        asked = await set_tree_acl(session, US, closed=True, change=False)
        assert (asked.right, asked.changed, len(asked.wrong)) == (0, 0, count)
        with kazoo(servers, US) as client:
            assert open_to_others(client, US, own), "asking changes nothing"
            # As if it had broken off in the middle: what is left is done, what was done is left.
            await session.set_acl("/", await session.get_acl("/brokers"))
            first = await set_tree_acl(session, US, closed=True)
            assert (first.right, first.changed, first.wrong) == (0, count, [])
            assert set(open_to_others(client, US, own)) == {f"{own}/somebody-elses"}
            again = await set_tree_acl(session, US, closed=True)
            assert (again.right, again.changed) == (count, 0)
            opened = await set_tree_acl(session, US, closed=False)
            assert (opened.right, opened.changed) == (0, count)
        with kazoo(servers) as stranger:
            assert stranger.get(f"{own}/ottla/secret")[0]
            stranger.set(f"{own}/brokers", b"")
    finally:
        await session.close()


async def test_the_tool_of_another_user_says_whose_it_is_not(zk_connect: str) -> None:
    ours = ZkSession(zk_connect, digest=US, sets_acl=True)
    other = ZkSession(zk_connect, digest=Digest("ottla:other"))
    await ours.start(WAIT_S)
    await other.start(WAIT_S)
    try:
        await ensure_persistent_paths(ours)
        await cluster_secret(ours)
        with pytest.raises(NotAuthorized, match="/ belongs to another user of ZooKeeper than the digest of user ottla"):
            await set_tree_acl(other, Digest("ottla:other"), closed=False)
        with kazoo(zk_connect, US) as client:
            assert open_to_others(client, US) == {}
    finally:
        await ours.close()
        await other.close()
