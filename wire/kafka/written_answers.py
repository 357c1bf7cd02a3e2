"""Answers that were written before, found again by all that they are made of: none can be out of date.

Metadata is asked for again and again and changes seldom: writing it costs far more than seeing that it is the same.
"""

import threading
from collections.abc import Hashable
from typing import Final, TypeVar

import msgspec

from ottla.wire.messages import Message

KEPT_BYTES: Final = 8 * 1024 * 1024
"""For all answers together, and what they are made of: those that were not asked for longest go first."""

ANSWER_BYTES: Final = KEPT_BYTES // 8
"""A larger one is not kept: a few of them would throw out all others."""

Key = tuple[int, Hashable, bytes]

M = TypeVar("M", bound=Message)

_SNAPSHOT: Final = msgspec.msgpack.Encoder()


class WrittenAnswers:
    """Of one api, in all its versions. For any thread."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._lock = threading.Lock()
        self._kept_bytes = kept_bytes
        self._answers: dict[Key, bytes] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._answers)

    def key(self, version: int, context: Hashable, message: Message) -> Key:
        """All that an answer depends on, as it is now: what ``message`` is made of may change later, in place."""
        return version, context, _SNAPSHOT.encode(message)

    def find(self, key: Key) -> bytes | None:
        with self._lock:
            found = self._answers.pop(key, None)
            if found is not None:
                self._answers[key] = found  # the last one is the one that was wanted last
            return found

    def keep(self, key: Key, answer: bytes) -> None:
        if _size(key, answer) > min(ANSWER_BYTES, self._kept_bytes):
            return
        with self._lock:
            if key in self._answers:
                return
            self._answers[key] = answer
            self.size += _size(key, answer)
            while self.size > self._kept_bytes:
                oldest = next(iter(self._answers))
                self.size -= _size(oldest, self._answers.pop(oldest))


def copy_of(message: M) -> M:
    """The message as it is now: while a thread writes it, the event loop may change what it is made of."""
    return msgspec.msgpack.decode(_SNAPSHOT.encode(message), type=type(message))


def _size(key: Key, answer: bytes) -> int:
    return len(key[2]) + len(repr(key[1])) + len(answer)
