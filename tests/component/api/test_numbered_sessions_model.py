"""A client with fetch sessions beside one that names everything: they read the same, whatever happens meanwhile."""

import random
from collections.abc import Sequence

import pytest

from ottla.wire.errors import FetchSessionIdNotFound, OffsetOutOfRange
from ottla.wire.requests import (
    NO_SESSION,
    FetchDrop,
    FetchPart,
    FetchPartResult,
    FetchRequest,
    FetchResponse,
    NumberedFetchResponse,
)
from tests.component.api.numbered_client import MUCH, Client, at, by_id, parts_of
from tests.component.api.served import HERE, THERE, Peer, Served, append, error_of, message_of


class Model:
    """What a client makes of answers: positions, and what it believes of high watermarks."""

    def __init__(self, count: int, size: int) -> None:
        self.size = size
        self.places = [0] * count
        self.high_watermarks = [-1] * count
        self.read: list[list[int]] = [[] for _ in range(count)]

    def take(self, parts: Sequence[FetchPartResult]) -> None:
        for part in parts:
            if error_of(part) is OffsetOutOfRange:
                self.places[part.partition] = part.log_start_offset
            if part.error_code == 0:
                self.high_watermarks[part.partition] = part.high_watermark
            for _ in range(part.size // self.size):
                self.read[part.partition].append(self.places[part.partition])
                self.places[part.partition] += 1


@pytest.mark.parametrize("seed", range(30))
async def test_client_with_sessions_reads_what_one_reads_that_names_everything(served: Served, seed: int) -> None:
    dice = random.Random(seed)
    count = 6
    for partition in range(count):
        await served.decide(partition=partition, replicas=(HERE, THERE), isr=(HERE,))
    size = append(served, 0)
    model, plain = Model(count, size), Model(count, size)
    ids, max_bytes = dice.random() < 0.5, dice.choice([1, 2500, MUCH])
    client = Client(served, by_id=ids, min_bytes=dice.choice([1, 1, 3000]), max_bytes=max_bytes)
    epochs = [0] * count
    believed: dict[int, int] = {}
    """What the session has, by the client's own account: partitions and where it wants them from."""

    def part_of(partition: int) -> FetchPart:
        offset = model.places[partition]
        return by_id(partition, offset) if ids else at(partition, offset)

    for step in range(300):
        calm = step > 240
        if not calm:
            for _ in range(dice.randrange(3)):
                where = dice.randrange(count)
                if served.partition("t", where).is_leader:
                    append(served, where)
            if dice.random() < 0.1:
                where = dice.randrange(count)
                epochs[where] += 1
                leader = THERE if served.partition("t", where).is_leader else HERE
                await served.decide(
                    partition=where, leader=leader, epoch=epochs[where], replicas=(HERE, THERE), isr=(HERE,)
                )
        elif step == 241:
            for where in range(count):
                if not served.partition("t", where).is_leader:
                    epochs[where] += 1
                    await served.decide(partition=where, epoch=epochs[where], replicas=(HERE, THERE), isr=(HERE,))
        if not calm and dice.random() < 0.05:
            client.peer, believed = Peer(), {}  # a new connection: the client hears that there is no session
            with pytest.raises(FetchSessionIdNotFound):
                parts_of(client.ask(client.session, max(client.epoch, 1), ()))
            client.session = NO_SESSION
        fetchable = list(range(count)) if calm else [p for p in range(count) if dice.random() < 0.9]
        if not believed:
            if fetchable:
                believed = {p: model.places[p] for p in fetchable}
                model.take(client.begin(*map(part_of, fetchable)).parts)
            continue
        named = [p for p in fetchable if believed.get(p) != model.places[p]]
        gone = [p for p in believed if p not in fetchable]
        believed = {p: model.places[p] for p in fetchable}
        drops = [FetchDrop("id-of-t" if ids else "t", p) for p in gone]
        answer = message_of(client.fetch(*map(part_of, named), dropped=drops, wait_ms=0), NumberedFetchResponse)
        assert {part.partition for part in answer.parts} <= set(fetchable)
        model.take(answer.parts)
        if answer.session_id == NO_SESSION:
            assert not fetchable
            believed, client.session = {}, NO_SESSION
    for _ in range(200):
        parts = [at(p, plain.places[p]) for p in range(count)]
        plain.take(message_of(served.ask(FetchRequest(0, 1, max_bytes, parts)), FetchResponse).parts)
        if plain.places == [served.partition("t", p).high_watermark for p in range(count)]:
            break
    assert model.read == plain.read
    assert model.high_watermarks == plain.high_watermarks
