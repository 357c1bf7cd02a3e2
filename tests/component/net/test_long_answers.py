"""Long answers are encoded in threads: those whose records are converted, and all others apart from them."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.net.answers import Answers
from ottla.net.reply import Later, Reply
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import RemoteProtocolError
from ottla.wire.requests import FetchRequest, FetchResponse
from tests.support.kafka_dialect import dialect_of_two_topics
from tests.support.kafka_values import frame


@pytest.mark.parametrize(("is_converted", "thread"), [(True, "conversion"), (False, "long answers")])
async def test_long_answer_waits_behind_conversions_only_if_it_is_one(is_converted: bool, thread: str) -> None:
    threads: list[str] = []

    def encode_response(*_: Any) -> list[bytes]:
        threads.append(threading.current_thread().name)
        return [b"x"]

    dialect: Any = SimpleNamespace(converts=lambda *_: is_converted, encode_response=encode_response)
    request = IncomingRequest(dialect, 1, 0, 1, "", FetchRequest(0, 0, 0, []), [])
    request.is_long = True
    done = asyncio.Event()
    answers = Answers(done.set, lambda: True)
    later = Later()
    later.reply = Reply(FetchResponse([]), [b"records"])
    answers.promise(request, later)
    answers.take()
    done.clear()
    await done.wait()
    assert threads[0].startswith(thread)


def test_join_of_more_elements_than_a_member_has_is_refused() -> None:
    head = b"\0\1g" + bytes(8) + b"\0\0" + b"\0\1c"
    body = frame(11, 1, False, head + (501).to_bytes(4, "big") + (b"\0\1p" + bytes(4)) * 501)
    with pytest.raises(RemoteProtocolError, match="501 elements"):
        dialect_of_two_topics().read_request(memoryview(body))
