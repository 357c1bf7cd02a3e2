"""A live broker that others attack, and the proof that it and its honest clients do not mind."""

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.local import LocalCluster
from tests.support.machine import scaled
from tests.support.raw_client import RawClient, one_record

DEADLINE_MS = 1500
"""The handshake and frame deadlines of the victim."""

BULK_BYTES = 8 * 1024 * 1024
RSS_GROWTH_MAX_MB = 64
SPARE_DESCRIPTORS = 3
"""A segment that an honest record has begun."""

LATENCY_MAX_S = scaled(3.0)
"""No honest request may take longer, on a machine where other tests run too. An attack that blocks the broker takes longer."""


class Victim:
    """Its topics: ``target`` must never get a record, ``healthy`` is the honest client's, ``bulk`` has 8 MB."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        host, _, port = cluster.address(0).partition(":")
        self.address = (host, int(port))
        url = cluster.admin_url(0).removeprefix("http://").partition(":")
        self.admin_address = (url[0], int(url[2]))
        self.pid = cluster.pid(0)

    def connect(self, timeout_s: float = 20.0) -> RawClient:
        return RawClient(self.address, timeout_s)

    def prepare(self) -> None:
        with self.connect() as client:
            for name in ("target", "healthy", "bulk", "scratch", "fuzz"):
                client.create_topic(name)
            batch = one_record(b"b" * 1_000_000)
            while client.end_offset("bulk") * 1_000_000 < BULK_BYTES:
                client.produce("bulk", bytearray(batch)).raise_if_failed()

    def create_topic_works(self) -> None:
        """The controller is obeyed: a topic is made, used and deleted."""
        with self.connect() as client:
            client.create_topic("short-lived")
            client.produce("short-lived", one_record()).raise_if_failed()
            client.delete_topic("short-lived")

    # --- what it looks like from outside -------------------------------------------------------------------------------

    def rss_mb(self) -> float:
        return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[0]) / 1024

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def metric(self, name: str) -> float:
        """The sum of all values of a metric, over its labels; ``name`` may have labels in it."""
        lines = [line for line in self.metrics().splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def metrics(self) -> str:
        return self.http("GET", "/metrics")[1]

    def http(self, method: str, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*self.admin_address, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def log(self) -> str:
        return self.cluster.log_path(0).read_text(errors="replace")

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.cluster.data_path(0).iterdir() if path.is_dir())

    def bugs(self) -> float:
        """How many requests failed in a way that nobody foresaw: no input may bring that about."""
        return sum(
            float(line.rpartition(" ")[2])
            for line in self.metrics().splitlines()
            if line.startswith("ottla_request_errors_total") and "UNKNOWN_SERVER_ERROR" in line
        )

    # --- the proof -----------------------------------------------------------------------------------------------------

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Whatever happens inside: an honest client does not notice, and afterwards everything is as it was."""
        descriptors, rss_mb, folders = self.descriptors(), self.rss_mb(), self.folders()
        connections, bugs, log_size = self.metric("ottla_connections "), self.bugs(), len(self.log())
        with HonestClient(self) as honest:
            yield
            honest.check()
        assert self.cluster.alive(0), self.log()[-3000:]
        assert self.cluster.pid(0) == self.pid
        within(lambda: self.metric("ottla_connections ") <= connections, "connections are still open")
        within(lambda: self.descriptors() <= descriptors + SPARE_DESCRIPTORS, "file descriptors are still open")
        within(lambda: self.rss_mb() < rss_mb + RSS_GROWTH_MAX_MB, "memory was not given back")
        with self.connect() as client:
            assert client.end_offset("target") == 0, "something was appended"
        assert self.folders() == folders
        assert self.bugs() == bugs
        assert "Traceback" not in self.log()[log_size:], self.log()[log_size:]


class HonestClient:
    """Writes and reads back a record at a time on a connection of its own, and measures how long that takes."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="honest client")
        self.rounds = 0
        self.slowest_s = 0.0

    def __enter__(self) -> "HonestClient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """The client went on until now, and was never kept waiting."""
        before = self.rounds
        within(lambda: self.rounds > before or self._failure is not None, "the honest client is stuck")
        if self._failure is not None:
            raise AssertionError("the honest client was disturbed") from self._failure
        assert self.slowest_s < LATENCY_MAX_S

    def _run(self) -> None:
        try:
            with self._victim.connect() as client:
                while not self._stop.wait(0.005):
                    self._round(client)
        except BaseException as failure:
            self._failure = failure

    def _round(self, client: RawClient) -> None:
        value = f"honest {time.monotonic_ns()}".encode()
        began = time.monotonic()
        result = client.produce("healthy", one_record(value))
        result.raise_if_failed()
        _, records = client.fetch("healthy", result.base_offset)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        assert value in records
        self.rounds += 1


def within(condition: Callable[[], bool], complaint: str, timeout_s: float = 15.0) -> None:
    """Wait for a condition; fail with ``complaint`` if it does not come true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{complaint} after {timeout_s:g} s"
        time.sleep(0.02)


@contextmanager
def running_victim() -> Iterator[Victim]:
    config = {
        "connection.handshake.timeout.ms": str(DEADLINE_MS),
        "connection.frame.timeout.ms": str(DEADLINE_MS),
    }
    with LocalCluster(brokers=1, broker_config=config) as cluster:
        victim = Victim(cluster)
        victim.prepare()
        yield victim
