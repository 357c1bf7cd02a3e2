"""Kafka's own clients in a run: producers and consumers that do what ours do there, as far as the workload asks for it."""

import asyncio
import contextlib
import importlib
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ottla.chaos.history import Headers, Read
from ottla.client.records import RecordMetadata
from ottla.wire.errors import ConfigError, NetworkException, OttlaError

CLOSE_S = 100.0
CLIENTS = ("ottla", "confluent", "aiokafka")


class Told:
    """What is heard of one record, later."""

    def __init__(self) -> None:
        self._error: OttlaError | None = None
        self._where: RecordMetadata | None = None
        self._callback: Callable[[Any], object] | None = None
        self._lock = threading.Lock()

    def add_callback(self, callback: Callable[[Any], object]) -> None:
        with self._lock:
            known = self._where is not None or self._error is not None
            self._callback = callback
        if known:
            callback(self)

    def exception(self) -> OttlaError | None:
        return self._error

    def result(self) -> RecordMetadata:
        assert self._where is not None
        return self._where

    def tell(self, where: RecordMetadata | None, error: str = "") -> None:
        with self._lock:
            self._where = where
            self._error = NetworkException(error) if where is None else None
            callback = self._callback
        if callback is not None:
            callback(self)


class ForeignProducer(Protocol):
    """Idempotent, acks=all."""

    def send(self, topic: str, value: bytes, key: bytes, headers: Headers, timestamp_ms: int | None) -> Told: ...
    def close(self, patience_s: float | None) -> None: ...


# --- confluent-kafka ---------------------------------------------------------------------------------------------------------


class ConfluentProducer:
    def __init__(self, bootstrap: str, codec: str, linger_ms: float) -> None:
        import confluent_kafka

        options: Any = {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": linger_ms,
            "delivery.timeout.ms": 90_000, "topic.metadata.refresh.interval.ms": 1000, "log_level": 0,
        }  # fmt: skip
        self._producer: Any = confluent_kafka.Producer(options)
        self._stop = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)
        self._polling.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(0.05)

    def send(self, topic: str, value: bytes, key: bytes, headers: Headers, timestamp_ms: int | None) -> Told:
        told = Told()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                told.tell(None, str(error))
            else:
                told.tell(RecordMetadata(topic, message.partition(), message.offset(), message.timestamp()[1]))

        more = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        self._producer.produce(topic, value, key, headers=list(headers), on_delivery=delivered, **more)
        return told

    def close(self, patience_s: float | None) -> None:
        self._producer.flush(CLOSE_S if patience_s is None else patience_s)
        self._stop.set()
        self._polling.join()


class ConfluentConsumer:
    def __init__(self, bootstrap: str, topic: str, positions: dict[int, int]) -> None:
        import confluent_kafka

        options: Any = {
            "bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0,
            "auto.offset.reset": "error",
        }  # fmt: skip
        self._consumer = confluent_kafka.Consumer(options)
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
        )

    def poll(self, timeout_s: float) -> list[tuple[int, list[Read]]]:
        """Records by partition."""
        found: dict[int, list[Read]] = {}
        first = self._consumer.poll(timeout_s)
        for message in [] if first is None else [first, *self._consumer.consume(500, 0.01)]:
            error = message.error()
            if error is not None:
                if not (
                    error.retriable() or error.code() < -1
                ):  # what librdkafka says itself is about brokers that are away
                    raise NetworkException(str(error))
                continue
            headers: Any = tuple(message.headers() or ())
            read = Read(message.offset() or 0, message.value(), message.key(), headers, message.timestamp()[1])
            found.setdefault(message.partition() or 0, []).append(read)
        return list(found.items())

    def close(self) -> None:
        self._consumer.close()


# --- aiokafka ----------------------------------------------------------------------------------------------------------------


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any, timeout_s: float = CLOSE_S) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class AioKafkaProducer:
    def __init__(self, bootstrap: str, codec: str, linger_ms: float) -> None:
        import aiokafka

        self._loop = _Loop()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=linger_ms, metadata_max_age_ms=1000,
                compression_type=None if codec == "none" else codec,
            )  # fmt: skip
            await producer.start()
            return producer

        self._producer: Any = self._loop.run(start())

    def send(self, topic: str, value: bytes, key: bytes, headers: Headers, timestamp_ms: int | None) -> Told:
        told = Told()
        # Of a batch whose times it chose itself, it tells that of the first record for all.
        stamp = timestamp_ms if timestamp_ms is not None else time.time_ns() // 1_000_000

        def delivered(sent: Any) -> None:
            error = "cancelled" if sent.cancelled() else sent.exception()
            if error is not None:
                told.tell(None, repr(error))
            else:
                where = sent.result()
                told.tell(RecordMetadata(topic, where.partition, where.offset, stamp))

        async def send() -> None:
            kept = [(name, one) for name, one in headers if one is not None]  # it knows no null
            sent = await self._producer.send(topic, value, key, timestamp_ms=stamp, headers=kept)
            sent.add_done_callback(delivered)

        try:
            self._loop.run(send())  # one after the other: two that waited for metadata together might change places
        except Exception as error:
            told.tell(None, repr(error))
        return told

    def close(self, patience_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            self._loop.run(self._producer.stop(), CLOSE_S if patience_s is None else patience_s)
        self._loop.stop()


# --- which -------------------------------------------------------------------------------------------------------------------


def check_client(client: str) -> None:
    """ConfigError if there is no such client, or if it is not installed."""
    if client not in CLIENTS:
        raise ConfigError(f"there is no client {client!r}", hint=f"there are: {', '.join(CLIENTS)}")
    try:
        importlib.import_module({"confluent": "confluent_kafka"}.get(client, client))
    except ImportError as error:
        raise ConfigError(f"{client} is not installed: {error}", hint="pip install 'ottla[compat]'") from None


def open_producer(client: str, bootstrap: str, codec: str, linger_ms: float) -> ForeignProducer:
    check_client(client)
    kind = ConfluentProducer if client == "confluent" else AioKafkaProducer
    return kind(bootstrap, codec, linger_ms)
