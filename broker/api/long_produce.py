"""Produce requests with so many batches that they are appended in slices of the event loop's time.

Between two slices a partition may get another leader, or too few in-sync replicas, and after the next slice things may be as
they were. So once a batch of a partition was refused with an error that is worth trying again, those behind it in the request
are refused with the same: else a later batch could be stored before an earlier one, which the producer sends again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.broker.api.acknowledgements import (
    TIMEOUT_MAX_S,
    Awaited,
    close_on_error,
    fail,
    is_acknowledged,
    not_acknowledged,
)
from ottla.broker.api.slices import Slices
from ottla.net.long_requests import InHand
from ottla.net.peer import Peer
from ottla.net.reply import NO_REPLY, Reply
from ottla.wire.errors import NotLeaderOrFollower, error_for
from ottla.wire.messages import ACKS_NONE
from ottla.wire.requests import ProducePart, ProducePartResult, ProduceRequest, ProduceResponse

LOOK_AGAIN_S: Final = 0.005
"""How often it is looked whether all are acknowledged."""


class LongProduces:
    """The connection takes no other request of its client meanwhile, so its batches stay in order."""

    def __init__(
        self,
        append: Callable[[ProducePart, memoryview, int, list[Awaited]], ProducePartResult],
        write_receipts: Callable[[list[ProducePartResult]], None],
    ) -> None:
        self._append_one = append
        self._write_receipts = write_receipts

    def answer(self, request: ProduceRequest, attachments: list[memoryview], peer: Peer) -> Coroutine[Any, Any, Reply]:
        return self._answer(request, attachments, peer, peer.in_hand)

    async def _answer(
        self, request: ProduceRequest, attachments: list[memoryview], peer: Peer, in_hand: InHand | None
    ) -> Reply:
        awaited: list[Awaited] = []
        epochs: list[int] = []
        results = await self._append(request, attachments, awaited, epochs)
        attachments.clear()
        if in_hand is not None:
            in_hand.body_is_done()
        if request.acks == ACKS_NONE:
            close_on_error(results, peer)
            return NO_REPLY
        if request.receipts:
            self._write_receipts(results)
        timeout_s = min(max(request.timeout_ms, 1) / 1000, TIMEOUT_MAX_S)
        ends_at = time.monotonic() + timeout_s
        slices = Slices()
        awaited.reverse()  # the first one is looked at first, and is the last of the list
        epochs.reverse()
        while awaited:
            result, partition, _ = awaited[-1]
            # Invariant: a high watermark acknowledges only what was appended in the same leader epoch. Since the last look,
            # another broker may have led the partition and replaced the records: then the high watermark covers others.
            if partition.leader_epoch != epochs[len(awaited) - 1]:
                fail(
                    result,
                    NotLeaderOrFollower(f"{partition.where} got another leader epoch before this was acknowledged"),
                )
                awaited.pop()
                await slices.rest()
            elif is_acknowledged(awaited[-1]):
                awaited.pop()
                await slices.rest()
            elif time.monotonic() < ends_at:
                if in_hand is not None:
                    in_hand.give_slot_back()
                    if not in_hand.may_wait:
                        ends_at = 0.0
                await asyncio.sleep(LOOK_AGAIN_S)
            else:
                awaited.pop()
                fail(result, not_acknowledged(partition, timeout_s))
                await slices.rest()
        return Reply(ProduceResponse(results))

    async def _append(
        self, request: ProduceRequest, attachments: list[memoryview], awaited: list[Awaited], epochs: list[int]
    ) -> list[ProducePartResult]:
        """Append all batches. ``awaited`` gets those that are to be acknowledged, ``epochs`` in which leader epoch each was
        appended."""
        slices = Slices()
        results: list[ProducePartResult] = []
        refused: dict[tuple[str, int], ProducePartResult] = {}
        for part, records in zip(request.parts, attachments, strict=True):
            where = (part.topic, part.partition)
            result = refused.get(where)
            if result is None:
                result = self._append_one(part, records, request.acks, awaited)
                if len(awaited) > len(epochs):
                    epochs.append(awaited[-1][1].leader_epoch)
                if result.error_code and error_for(result.error_code, "").retriable:
                    refused[where] = result
            results.append(result)
            await slices.rest()
        return results
