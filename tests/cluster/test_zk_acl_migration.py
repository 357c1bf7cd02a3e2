"""From a cluster that is open to all to one that is closed, while it works."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from ottla.client import Producer
from ottla.local import LocalCluster
from ottla.zk.access import read_digest
from tests.support.cluster import ottla
from tests.support.observer import SHORT, WAIT_S, Observer, observed
from tests.support.rights import kazoo, open_to_others, tree, trespasses

pytestmark = pytest.mark.cluster

TOPIC = "orders"
OPEN = {**SHORT, "zookeeper.digest.file": "", "zookeeper.set.acl": "false"}


class Writer:
    """Writes one record after the other, from first to last; every one must be acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.acked: list[bytes] = []
        self.failed: list[BaseException] = []

    def run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap, acks="all") as producer:
            while not self._stop.wait(0.005):
                value = b"%d" % len(self.acked)
                try:
                    producer.send(TOPIC, value).result(timeout=WAIT_S)
                except Exception as error:
                    self.failed.append(error)
                    return
                self.acked.append(value)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def writing(bootstrap: str) -> Iterator[Writer]:
    writer = Writer(bootstrap)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        yield writer
    finally:
        writer.stop()
        thread.join(2 * WAIT_S)


def restart_all(seen: Observer, *lines: str) -> None:
    """One broker after the other, with more lines in its properties; the later of two with the same name counts."""
    for broker in seen.cluster.brokers:
        seen.wait_in_sync(TOPIC)
        assert seen.cluster.terminate(broker) == 0
        with (seen.cluster.folder / f"broker-{broker}" / "server.properties").open("a") as properties:
            properties.writelines(f"{line}\n" for line in lines)
        seen.cluster.start(broker)
    seen.wait_in_sync(TOPIC)


def acl_tool(cluster: LocalCluster, digest: Path, *arguments: str) -> tuple[int, str]:
    done = ottla("zookeeper", "acl", "--connect", cluster.zookeeper, "--digest-file", str(digest), *arguments)
    return done.returncode, done.stdout + done.stderr


def test_an_open_cluster_is_closed_under_load_and_opened_again(tmp_path: Path) -> None:
    digest = tmp_path / "digest"
    digest.write_text("ottla:chosen by the operator\n")
    with LocalCluster(brokers=3, broker_config=OPEN) as cluster, observed(cluster) as seen:
        seen.admin.create_topic(
            TOPIC, partitions=2, replication_factor=3, config={"min.insync.replicas": "2"}, timeout=WAIT_S
        )
        seen.admin.create_topic("untouched", partitions=2, timeout=WAIT_S)
        with kazoo(cluster.zookeeper) as stranger, writing(cluster.bootstrap) as writer:
            assert stranger.get("/ottla/secret")[0], "open to all, to begin with"
            restart_all(seen, f"zookeeper.digest.file={digest}")
            assert acl_tool(cluster, digest)[0] == 1, "the digest alone closes nothing"
            assert stranger.get("/ottla/secret")[0]
            restart_all(seen, "zookeeper.set.acl=true")
            assert any("older znodes are open" in seen.log(broker) for broker in cluster.brokers)
            seen.admin.create_topic("between", timeout=WAIT_S)

            code, told = acl_tool(cluster, digest, "--secure")
            assert code == 0, told
            assert "znodes are closed now" in told
            assert acl_tool(cluster, digest, "--secure")[1].startswith("0 znodes are closed now")
            assert acl_tool(cluster, digest)[0] == 0

            with pytest.raises(NoAuthError):
                stranger.get("/ottla/secret")
            with kazoo(cluster.zookeeper, read_digest(digest)) as owner:
                _works(seen)
                assert open_to_others(owner, read_digest(digest)) == {}
                paths = [path for path in tree(owner) if "isr_change_" not in path]
                assert trespasses(stranger, paths) == []
        assert writer.failed == []
        assert len(writer.acked) > 100
        stored = seen.consume(TOPIC, len(writer.acked))
        assert sorted(value for values in stored.values() for value in values) == sorted(writer.acked)

        restart_all(seen, "zookeeper.set.acl=false")
        assert acl_tool(cluster, digest, "--open")[0] == 0
        restart_all(seen, "zookeeper.digest.file=")
        _works(seen)


@pytest.mark.parametrize("option", [(), ("--secure",), ("--open",)])
def test_where_there_is_no_cluster_nothing_is_changed(zk_connect: str, tmp_path: Path, option: tuple[str, ...]) -> None:
    digest = tmp_path / "digest"
    digest.write_text("ottla:chosen by the operator\n")
    with kazoo(zk_connect) as somebody:
        somebody.ensure_path("/brokers/of_somebody_else")
        before = {path: somebody.get_acls(path)[0] for path in ("/", *tree(somebody))}
        done = ottla("zookeeper", "acl", "--connect", zk_connect, "--digest-file", str(digest), *option)
        assert (done.returncode, "no Ottla cluster at /" in done.stderr) == (4, True), done.stdout
        assert {path: somebody.get_acls(path)[0] for path in ("/", *tree(somebody))} == before


def _works(seen: Observer) -> None:
    """A controller, which leads partitions too, dies: others take over; and a topic is made and deleted."""
    seen.admin.create_topic("short-lived", partitions=3, replication_factor=3, timeout=WAIT_S)
    victim = seen.wait_controller()
    seen.cluster.kill(victim)
    assert seen.wait_controller() != victim
    seen.produce("short-lived", [b"%d" % n for n in range(100)])
    seen.cluster.start(victim)
    seen.wait_in_sync("short-lived")
    seen.admin.delete_topic("short-lived", timeout=WAIT_S)
    seen.wait_in_sync(TOPIC)
