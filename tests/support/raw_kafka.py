"""A client that speaks Kafka's protocol by kio's schemas and does only what it is told: any api, any version, any values."""

import io
import socket
from types import TracebackType
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tests.support.kafka_values import entity_of, frame, plain
from tests.support.machine import scaled

TIMEOUT_S = scaled(20.0)


class HungUp(Exception):
    """The broker closed the connection instead of answering."""


class RawKafka:
    """One blocking connection to the broker at ``address``, "host:port"."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._stream = self._sock.makefile("rb")

    def __enter__(self) -> "RawKafka":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._sock.close()

    def send(self, api: int, version: int, values: dict[str, Any]) -> None:
        schema, out = load_request_schema(api, version), io.BytesIO()
        entity_writer(schema)(out, entity_of(schema, values))
        request = frame(api, version, schema.__flexible__, out.getvalue())
        self._sock.sendall(len(request).to_bytes(4, "big") + request)

    def receive(self, api: int, version: int) -> Any:
        """The answer as plain values, by Kafka's names."""
        length = self._stream.read(4)
        if len(length) < 4:
            raise HungUp
        answer = self._stream.read(int.from_bytes(length, "big"))
        old_head = api == 18 or not load_request_schema(api, version).__flexible__
        entity, _ = entity_reader(load_response_schema(api, version))(answer[4 if old_head else 5 :], 0)
        return plain(entity)

    def ask(self, api: int, version: int, values: dict[str, Any]) -> Any:
        self.send(api, version, values)
        return self.receive(api, version)
