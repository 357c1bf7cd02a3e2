"""Named writes: records that whoever repeats them sends under the same numbers, so that they are stored once.

A *writer* (a Spark query, say) has *tasks*, and each task writes one *batch* after the other. ``BeginWrite`` gives the producer
id and epoch of a batch, the same to every attempt at it, and the note that the first attempt left. An attempt at an earlier
batch is refused, here and, by its epoch, where the records go.
"""

from ottla.wire.messages import Api, Failure, Request
from ottla.wire.names import NO_EPOCH

WRITER_MAX = 200
"""Characters in the name of a writer."""

TASKS_MAX = 100_000
"""Tasks that a writer may have: they are numbered from 0."""

ALL_TASKS = -1
"""EndWrite of the whole writer: nobody goes on under its name, and no attempt at any of its tasks may begin anew."""

NOTE_MAX = 64 * 1024
"""Bytes that the first attempt at a batch may leave for the others."""


class BeginWriteResponse(Failure):
    producer_id: int = -1
    producer_epoch: int = NO_EPOCH
    note: bytes = b""
    """What the first attempt at this batch left."""
    done: bool = False
    """Whether an attempt at it has told that everything was stored."""


class BeginWriteRequest(Request):
    api = Api.BEGIN_WRITE
    response = BeginWriteResponse
    writer: str
    task: int
    batch: int
    note: bytes


class EndWriteResponse(Failure):
    """Whether it was noted."""


class EndWriteRequest(Request):
    """All records of a batch are stored: no other attempt need send them. Or, with ALL_TASKS, those of the whole write."""

    api = Api.END_WRITE
    response = EndWriteResponse
    writer: str
    task: int
    batch: int
