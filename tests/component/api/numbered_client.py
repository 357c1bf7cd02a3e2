"""One of Kafka's clients as a broker's handlers see it: it counts the epochs of its fetch session."""

from collections.abc import Sequence

from ottla.wire.requests import (
    FIRST_EPOCH,
    NO_SESSION,
    FetchDrop,
    FetchPart,
    FetchPartResult,
    NumberedFetchRequest,
    NumberedFetchResponse,
)
from tests.component.api.served import Asked, Peer, Served, message_of

MUCH = 1 << 20
LONG_MS = 60_000


class Client:
    """One of Kafka's clients over one connection, as far as the broker sees it: it counts epochs, and does what it is told."""

    def __init__(self, served: Served, *, by_id: bool = False, min_bytes: int = 1, max_bytes: int = MUCH) -> None:
        self.served = served
        self.peer = Peer()
        self.by_id = by_id
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.session = NO_SESSION
        self.epoch = FIRST_EPOCH

    def ask(
        self, session: int, epoch: int, parts: Sequence[FetchPart], dropped: Sequence[FetchDrop] = (), wait_ms: int = 0
    ) -> Asked:
        request = NumberedFetchRequest(
            wait_ms, self.min_bytes, self.max_bytes, list(parts), dropped=tuple(dropped),
            session_id=session, session_epoch=epoch, by_id=self.by_id,
        )  # fmt: skip
        return self.served.ask(request, peer=self.peer)

    def begin(self, *parts: FetchPart) -> NumberedFetchResponse:
        answer = message_of(self.ask(self.session, FIRST_EPOCH, parts), NumberedFetchResponse)
        self.session, self.epoch = answer.session_id, 1
        return answer

    def fetch(self, *parts: FetchPart, dropped: Sequence[FetchDrop] = (), wait_ms: int = LONG_MS) -> Asked:
        asked = self.ask(self.session, self.epoch, parts, dropped, wait_ms)
        self.epoch += 1
        return asked

    def look(self, *parts: FetchPart, dropped: Sequence[FetchDrop] = ()) -> list[int]:
        """The partitions that an answer at once speaks of."""
        return told(self.fetch(*parts, dropped=dropped, wait_ms=0))


def at(
    partition: int, offset: int, max_bytes: int = MUCH, epoch: int = -1, topic: str = "t", topic_id: str = ""
) -> FetchPart:
    return FetchPart(topic, partition, offset, max_bytes, epoch, topic_id=topic_id)


def by_id(partition: int, offset: int, topic: str = "t", known: bool = True) -> FetchPart:
    return at(partition, offset, topic=topic if known else "", topic_id=f"id-of-{topic}")


def parts_of(asked: Asked) -> list[FetchPartResult]:
    return message_of(asked, NumberedFetchResponse).parts


def told(asked: Asked) -> list[int]:
    return [part.partition for part in parts_of(asked)]
