"""Producers that send as fast as they can and remember every ack, and the check that each ack was true."""

import itertools
import random
import threading
import time
from contextlib import ExitStack
from types import TracebackType

from ottla.wire import native
from ottla.wire.records import encode_batch
from ottla.wire.requests import ProducePart, ProduceRequest, ProduceResponse
from tests.support.batches import split_batches
from tests.support.machine import scaled
from tests.support.raw_client import Hung, RawClient, framed

IN_FLIGHT = 8
"""How many requests each producer has under way: whatever a crash catches in the middle is among them."""

_numbers = itertools.count()


class Ledger:
    """What was sent to one partition, and what was acknowledged: each value is sent once, and nobody tries again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: set[bytes] = set()
        self.acked: dict[int, bytes] = {}

    def sending(self, values: list[bytes]) -> None:
        with self._lock:
            self.sent.update(values)

    def acknowledged(self, base_offset: int, values: list[bytes]) -> None:
        with self._lock:
            for offset, value in enumerate(values, base_offset):
                assert offset not in self.acked, f"offset {offset} was acknowledged twice"
                self.acked[offset] = value

    def check(self, client: RawClient, topic: str, partition: int = 0) -> int:
        """Read the whole log: every ack true, no offset missing, nothing twice, nothing that nobody sent. Its length."""
        seen: dict[int, bytes] = {}
        client.wait_until_led(topic, partition)
        end = client.end_offset(topic, partition)
        offset = 0
        while offset < end:
            _, records = client.fetch(topic, offset, partition=partition)
            for batch in split_batches(records):
                assert batch.base_offset == offset, "offsets have no gaps"
                for at, value in zip(batch.offsets(), batch.values(), strict=True):
                    assert value is not None
                    seen[at] = value
                offset = batch.next_offset
        assert sorted(seen) == list(range(end))
        values = set(seen.values())
        assert len(values) == len(seen), "a record is there twice"
        assert values <= self.sent, "a record is there that nobody sent"
        wrong = {at: value for at, value in self.acked.items() if seen.get(at) != value}
        assert not wrong, (
            f"{len(wrong)} of {len(self.acked)} acknowledged records are lost or moved: {sorted(wrong)[:10]}"
        )
        return end


class Storm:
    """Several producers on one partition until the broker goes away, or ``stop`` is called."""

    def __init__(self, address: tuple[str, int], topic: str, ledger: Ledger, *, acks: list[int], seed: int) -> None:
        self._address = address
        self._topic = topic
        self._ledger = ledger
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(ack, random.Random(seed + number)), name=f"producer {number}")
            for number, ack in enumerate(acks)
        ]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def wait_for_acks(self, more: int, timeout_s: float = scaled(30.0)) -> None:
        wanted = len(self._ledger.acked) + more
        deadline = time.monotonic() + timeout_s
        while len(self._ledger.acked) < wanted and not self._failures:
            assert time.monotonic() < deadline, f"{len(self._ledger.acked)} of {wanted} acks after {timeout_s:g} s"
            time.sleep(0.005)
        assert all(thread.is_alive() for thread in self._threads), "a producer lost a broker that nobody has killed"

    def _run(self, acks: int, chance: random.Random) -> None:
        with ExitStack() as stack:
            try:
                client = stack.enter_context(RawClient(self._address))
                client.greet()
                while not self._stop.is_set():
                    self._send_some(client, acks, chance)
            except (Hung, OSError):
                pass  # the broker is gone: what was under way is neither acknowledged nor known to be lost
            except BaseException as failure:
                self._failures.append(failure)

    def _send_some(self, client: RawClient, acks: int, chance: random.Random) -> None:
        rounds = []
        for _ in range(IN_FLIGHT):
            padding = b"." * chance.choice((0, 10, 1000, 20_000))
            values = [b"%d %b" % (next(_numbers), padding) for _ in range(chance.randint(1, 20))]
            self._ledger.sending(values)
            batch = encode_batch(values, timestamps=int(time.time() * 1000))
            client.sock.sendall(
                framed(ProduceRequest(acks, 10_000, [ProducePart(self._topic, 0, len(batch))]), [batch])
            )
            rounds.append(values)
        for values in rounds:
            response = client.answer()
            if response.error is not None:
                raise response.error
            (part,) = native.decode_fields(ProduceResponse, response.fields).parts
            part.raise_if_failed()
            self._ledger.acknowledged(part.base_offset, values)
