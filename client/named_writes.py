"""Named writes, as a client asks for them: the numbers under which every attempt at a batch sends its records."""

from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.wire.messages import Failure, Request
from ottla.wire.named_writes import ALL_TASKS, BeginWriteRequest, BeginWriteResponse, EndWriteRequest, EndWriteResponse

F = TypeVar("F", bound=Failure)


async def begin_write(
    cluster: Cluster, writer: str, task: int, batch: int, note: bytes, timeout_s: float
) -> BeginWriteResponse:
    """The producer id and epoch of a batch of a writer's task, and the note of the first attempt at it.

    InvalidProducerEpoch if a later batch has begun: this attempt was left behind.
    """
    request = BeginWriteRequest(writer, task, batch, note)
    return await _ask(cluster, request, BeginWriteResponse, timeout_s, f"{writer!r} could not begin to write")


async def end_write(cluster: Cluster, writer: str, task: int, batch: int, timeout_s: float) -> None:
    """Everything of the batch is stored: other attempts need not send it again."""
    request = EndWriteRequest(writer, task, batch)
    await _ask(cluster, request, EndWriteResponse, timeout_s, f"that {writer!r} has written could not be noted")


async def end_writer(cluster: Cluster, writer: str, timeout_s: float) -> None:
    """Everything of all its tasks is stored, and nobody goes on under this name: attempts that begin later are refused."""
    request = EndWriteRequest(writer, ALL_TASKS, 0)
    await _ask(cluster, request, EndWriteResponse, timeout_s, f"that {writer!r} has ended could not be noted")


async def _ask(cluster: Cluster, request: Request, kind: type[F], timeout_s: float, what: str) -> F:
    """Any broker may be asked, and asked again: both requests give the same answer then."""

    def ask_another(answer: F) -> None:
        if answer.error_code and (error := answer.error()).retriable:
            raise error

    async def attempt() -> F:
        answer = await cluster.ask_any(request, kind, ask_another)
        answer.raise_if_failed()
        return answer

    return await cluster.retry(attempt, timeout_s, what)
