"""The largest requests of the fuzzer: brokers take every one, and read none of those with many elements on the event loop."""

import contextlib
import random
import time

import pytest

from ottla.chaos.fuzz.batches import honest
from ottla.chaos.fuzz.largest import SHAPES, Shape, largest_frame
from ottla.chaos.fuzz.requests import TARGETS, World
from ottla.chaos.fuzz.schemas import VERSIONS
from ottla.wire.dialect import UnreadableRequest
from ottla.wire.request_limits import LongRequest, limit_of
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.loop_time import CALLBACK_MAX_S, PURE_FACTOR
from tests.support.machine import slowness

DIALECT = dialect_of_two_topics()


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[-1]], ids=lambda shape: shape.name)
@pytest.mark.parametrize("api", list(VERSIONS))
def test_every_api_takes_its_largest_request_and_reads_it_in_a_thread(api: int, shape: Shape) -> None:
    source = random.Random(api)
    world = World(dict.fromkeys(TARGETS, bytes(range(16))), 10**12)
    version = VERSIONS[api][-1]
    frame = bytearray(largest_frame(source, world, api, version, shape, honest(source, 10**12)))
    assert len(frame) - 4 <= limit_of(api).frame_max
    body = memoryview(frame)[4:]
    read = DIALECT.read_long_request(body)
    assert isinstance(read, UnreadableRequest) or read.is_long
    began = time.thread_time()
    with contextlib.suppress(LongRequest):
        DIALECT.read_request(body)
    assert time.thread_time() - began < CALLBACK_MAX_S * PURE_FACTOR * slowness()
