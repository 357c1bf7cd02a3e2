"""Real answers of a live cluster to every api in every version, for judges that know Kafka's protocol on their own.

`python -m tests.foreign.answers` asks, and has them read by kafka-python's schemas and by the Rust crate kafka-protocol, to
their last byte. Requests are the fuzzer's valid ones, so there are errors among the answers, too.
"""

import contextlib
import importlib
import io
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ottla.chaos.fuzz.answers import asked_by, error_codes, expects_answer, kind_of, read_answer
from ottla.chaos.fuzz.requests import SCRATCH, TARGETS, World, request_frame
from ottla.chaos.fuzz.schemas import VERSIONS
from ottla.chaos.fuzz.stored import any_address, describe
from ottla.client import Admin
from ottla.local import LocalCluster
from tests.foreign.drive import NotHere, rust

ASKED = 40
"""Requests of each version, to brokers in turn."""

TIMEOUT_S = 2.0

Answer = tuple[int, int, bytes]


def collect(cluster: LocalCluster) -> Iterator[Answer]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for topic in (*TARGETS, *SCRATCH):
            admin.create_topic(topic, 2, 3)
    _, topics = describe(any_address(cluster.bootstrap), list(TARGETS))
    world = World({topic.name: topic.topic_id for topic in topics}, time.time_ns() // 1_000_000)
    source = random.Random(1)
    for api, versions in VERSIONS.items():
        for version in versions:
            for number in range(ASKED):
                frame = request_frame(source, world, api, version, number)
                host, _, port = cluster.address(number % 3).partition(":")
                answer = _ask((host, int(port)), frame) if expects_answer(frame) else None
                if answer is not None:
                    yield api, version, answer


def _ask(address: tuple[str, int], frame: bytes) -> bytes | None:
    """None where the broker lets it wait for longer than this does."""
    with contextlib.suppress(TimeoutError), contextlib.closing(socket.create_connection(address, TIMEOUT_S)) as sock:
        sock.sendall(frame)
        stream = sock.makefile("rb")
        answer = stream.read(int.from_bytes(stream.read(4), "big"))
        asked = asked_by(frame)
        assert asked is not None
        TOLD[kind_of(error_codes(read_answer(asked, answer)))] += 1
        return answer
    return None


TOLD: Counter[str] = Counter()


def judged_by_kafka_python(answers: list[Answer]) -> bool:
    """Its schemas are Kafka's own JSON."""
    from kafka.protocol.api_message import ApiMessage

    responses = _responses_of(ApiMessage)
    good, bad, unknown = 0, 0, set()
    for api, version, answer in answers:
        schema = responses.get(api)
        if schema is None or not schema.min_version <= version <= schema.max_version:
            unknown.add((api, version))
            continue
        left = _left_by(schema, version, answer)
        good, bad = good + (not left), bad + bool(left)
        if left:
            print(f"FAILED  {schema.__name__} {version}: {left} bytes left over: {answer.hex()}")
    print(
        f"{'ok    ' if not bad else 'FAILED'} kafka-python: {good} answers, {bad} bad; not known to it: {sorted(unknown)}"
    )
    return not bad


def _left_by(schema: Any, version: int, answer: bytes) -> int:
    """How many bytes it does not read: its own ``decode`` does not tell."""
    head, flexible = io.BytesIO(answer), schema.flexible_version_q(version)
    schema.parse_header(head, version=version)
    read = schema._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=schema[None])
    _, end = read(memoryview(answer), head.tell())
    return len(answer) - int(end)


def _responses_of(base: Any) -> dict[int, Any]:
    for room in ("admin", "consumer", "producer", "metadata"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"kafka.protocol.{room}")
    found, todo = {}, [base]
    while todo:
        for one in todo.pop().__subclasses__():
            todo.append(one)
            if getattr(one, "API_KEY", None) is not None and one.__name__.endswith("Response"):
                found[int(one.API_KEY)] = one
    return found


def judged_by_kafka_protocol(answers: list[Answer]) -> bool:
    try:
        (program,) = rust("strict")()
    except NotHere as why:
        print(f"SKIPPED: kafka-protocol was NOT asked: {why}")
        return True
    lines = "".join(f"{api} {version} {answer.hex()}\n" for api, version, answer in answers)
    return subprocess.run([program], input=lines, text=True).returncode == 0


def main() -> int:
    with LocalCluster(brokers=3, broker_config={"auto.create.topics.enable": "false"}) as cluster:
        answers = list(collect(cluster))
    versions = {(api, version) for api, version, _ in answers}
    missing = {(api, version) for api, known in VERSIONS.items() for version in known} - versions
    print(f"{len(answers)} answers in {len(versions)} versions, none in {sorted(missing)}; {dict(TOLD.most_common())}")
    return 0 if all([judged_by_kafka_protocol(answers), judged_by_kafka_python(answers), not missing]) else 1


if __name__ == "__main__":
    sys.exit(main())
