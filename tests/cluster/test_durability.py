"""What was acknowledged is there, whatever happens to the broker's process or to its ZooKeeper session."""

import os
import random
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local import LocalCluster
from ottla.local.broker import child_environment
from ottla.wire.messages import ACKS_ALL, ACKS_LEADER
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, one_record
from tests.support.storm import Ledger, Storm
from tests.support.victim import within

pytestmark = pytest.mark.cluster

TOPIC = "storm"
ROUNDS = 4
ACKS_PER_ROUND = 500
SESSION_TIMEOUT_MS = 2000
SMALL_SEGMENTS = {"log.segment.bytes": str(4 * 1024 * 1024), "message.max.bytes": str(1024 * 1024)}


def address_of(cluster: LocalCluster) -> tuple[str, int]:
    host, _, port = cluster.address(0).partition(":")
    return host, int(port)


def create(cluster: LocalCluster, topic: str = TOPIC) -> None:
    with RawClient(address_of(cluster)) as client:
        client.create_topic(topic)


def seed() -> int:
    """Printed with a failing test; OTTLA_TEST_SEED repeats it."""
    chosen = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(2**32)))
    print(f"OTTLA_TEST_SEED={chosen}")
    return chosen


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {**SMALL_SEGMENTS, "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    with LocalCluster(brokers=1, broker_config=config) as running:
        yield running


@pytest.mark.parametrize("policy", ["os", "durable"])
def test_acked_records_survive_kill_9_in_a_produce_storm(policy: str) -> None:
    start = seed()
    chance = random.Random(start)
    config = {**SMALL_SEGMENTS, "log.flush.policy": policy, "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    ledger = Ledger()
    length = 0
    with LocalCluster(brokers=1, broker_config=config) as cluster:
        create(cluster)
        for number in range(ROUNDS):
            acks = [ACKS_LEADER, ACKS_ALL, ACKS_LEADER, ACKS_ALL]
            with Storm(address_of(cluster), TOPIC, ledger, acks=acks, seed=start + number) as storm:
                storm.wait_for_acks(ACKS_PER_ROUND + chance.randrange(ACKS_PER_ROUND))
                cluster.kill(0)
            cluster.start(0)
            with RawClient(address_of(cluster)) as client:
                grown = ledger.check(client, TOPIC)
            assert grown > length
            length = grown
        log = cluster.log_path(0).read_text()
        assert log.count("unclean=True") == ROUNDS, "each restart was one after a crash"
    assert len(ledger.acked) >= ROUNDS * ACKS_PER_ROUND


def test_a_stop_in_the_middle_of_a_storm_is_clean_and_keeps_every_ack(cluster: LocalCluster) -> None:
    ledger = Ledger()
    create(cluster)
    with Storm(address_of(cluster), TOPIC, ledger, acks=[ACKS_LEADER, ACKS_ALL], seed=seed()) as storm:
        storm.wait_for_acks(ACKS_PER_ROUND)
        assert cluster.terminate(0) == 0
    before = len(cluster.log_path(0).read_text())
    cluster.start(0)
    log = cluster.log_path(0).read_text()[before:]
    assert "unclean=False tail_suspect=False" in log
    assert "recover" not in log
    assert "Traceback" not in cluster.log_path(0).read_text()
    with RawClient(address_of(cluster)) as client:
        ledger.check(client, TOPIC)
        client.produce(TOPIC, one_record()).raise_if_failed()


def run_second_broker(cluster: LocalCluster, folder: Path, broker_id: int) -> "subprocess.CompletedProcess[str]":
    """A broker that should not come up; gives how it ended."""
    options = {
        "broker.id": str(broker_id),
        **cluster.zookeeper_properties,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "admin.listener": "http://127.0.0.1:0",
        "log.dirs": str(folder),
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    }
    flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "ottla.broker", *flags],
        capture_output=True,
        text=True,
        timeout=scaled(60),
        env=child_environment(),
        check=False,
    )


def still_serves(cluster: LocalCluster) -> None:
    topic = f"alive-{uuid.uuid4().hex[:8]}"
    with RawClient(address_of(cluster)) as client:
        client.create_topic(topic)
        client.wait_until_led(topic)
        client.produce(topic, one_record()).raise_if_failed()


def test_a_second_broker_with_the_same_id_ends_with_a_clear_message(cluster: LocalCluster, tmp_path: Path) -> None:
    ended = run_second_broker(cluster, tmp_path, 0)
    assert ended.returncode not in (0, -9)
    assert "Traceback" not in ended.stderr
    (line,) = re.findall(r"^error: .*$", ended.stderr, re.MULTILINE)
    assert "0" in line
    assert cluster.address(0).rpartition(":")[2] in line, "it says who has the id"
    still_serves(cluster)


@pytest.mark.parametrize("broker_id", [0, 1])
def test_a_second_process_on_the_same_data_folder_is_refused(cluster: LocalCluster, broker_id: int) -> None:
    ended = run_second_broker(cluster, cluster.data_path(0), broker_id)
    assert ended.returncode not in (0, -9)
    assert "Traceback" not in ended.stderr
    assert (
        f"error: data folder {cluster.data_path(0)} is in use by another process (pid {cluster.pid(0)})" in ended.stderr
    )
    still_serves(cluster)


def test_a_broker_whose_session_expired_registers_anew_and_serves(cluster: LocalCluster) -> None:
    ledger = Ledger()
    create(cluster, "expiry")
    log_size = len(cluster.log_path(0).read_text())

    def log() -> str:
        return cluster.log_path(0).read_text()[log_size:]

    with Storm(address_of(cluster), "expiry", ledger, acks=[ACKS_ALL], seed=seed()) as storm:
        storm.wait_for_acks(100)
        cluster.zookeeper_servers.pause(0)
        try:
            within(lambda: "state=EXPIRED" in log(), "the session does not expire", 30)
            assert not cluster.is_ready(0)
        finally:
            cluster.zookeeper_servers.resume(0)
        within(lambda: cluster.is_ready(0), "the broker is not ready again", 30)
        assert "broker registered" in log()
    with RawClient(address_of(cluster)) as client:
        within(lambda: client.produce("expiry", one_record()).error_code == 0, "it does not serve again", 30)
        client.produce("expiry", one_record()).raise_if_failed()
    create(cluster, "after-expiry")  # it is the controller again, too
    assert "Traceback" not in log()
