"""Attacks: what one peer sends, how, and what must come of it. Pure: the same seed and number are the same attack."""

import enum
import random
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.chaos.fuzz.batches import LIES, honest, storable
from ottla.chaos.fuzz.largest import any_largest
from ottla.chaos.fuzz.mutations import MUTATIONS
from ottla.chaos.fuzz.requests import BROKERS, World, any_api, request_frame
from ottla.chaos.fuzz.schemas import API_VERSIONS, DESCRIBE_CONFIGS, FETCH, METADATA, PRODUCE, VERSIONS

JOIN_GROUP: Final = 11
JOINS_AT_ONCE: Final = 3
"""The newest version of JoinGroup in which a member needs no id before."""

GREETING_ID: Final = 2**31 - 1
CROWD: Final = 40
"""Connections of a peer that opens many at once."""

PIPELINED: Final = 30
UNREAD: Final = 200
"""Requests of a peer that reads no answer: together less than a broker holds for one."""


class Way(enum.Enum):
    """How the bytes go out, and what the peer does then."""

    WHOLE = "whole"
    """All at once, then answers are read."""

    DRIPPING = "a byte at a time"

    SILENT = "half a frame, then silence"
    """The broker must hang up by its own clock."""

    CROWD = "many connections with half a frame each"

    DEAF = "many requests, and nobody reads the answers"


class Attack(NamedTuple):
    number: int
    kind: str
    way: Way
    broker: int
    greets: bool
    """Whether a good ApiVersions goes first: then larger frames are believed."""
    frames: list[bytes]
    storable: list[int]
    """The fingerprints of all batches in there that may be stored."""
    must_answer: bool
    """Whether every frame is a valid request, for which silence or a closed connection would be wrong."""


def make_attack(seed: int, number: int, world: World, *, largest: bool = False) -> Attack:
    """``largest``: of those whose requests are as large as brokers take them."""
    source = random.Random(f"{seed}/{number}")
    kinds = _LARGEST if largest else _KINDS
    kind = source.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    return kinds[kind][1](source, world, number)


def greeting() -> bytes:
    return request_frame(random.Random(0), World({}, 0), API_VERSIONS, 0, GREETING_ID)


def _frame(source: random.Random, world: World, correlation_id: int = 1) -> "_Made":
    api, version = any_api(source)
    if api == PRODUCE:
        return _produce(source, world, honest(source, world.now_ms), correlation_id)
    return _Made(request_frame(source, world, api, version, correlation_id), [])


def _produce(source: random.Random, world: World, records: bytes, correlation_id: int = 1) -> "_Made":
    version = source.choice(VERSIONS[PRODUCE])
    return _Made(request_frame(source, world, PRODUCE, version, correlation_id, records), storable(records))


class _Made(NamedTuple):
    frame: bytes
    storable: list[int]

    def mutated(self, source: random.Random, kind: str) -> "_Made":
        return self._replace(frame=MUTATIONS[kind](source, self.frame))

    def begun(self, source: random.Random) -> "_Made":
        """Its beginning only."""
        return self._replace(frame=self.frame[: source.randrange(1, len(self.frame))])


def _attack(
    source: random.Random, number: int, kind: str, made: list[_Made], way: Way = Way.WHOLE, *, valid: bool = False
) -> Attack:
    fingerprints = [one for request in made for one in request.storable]
    frames = [one.frame for one in made]
    return Attack(number, kind, way, source.randrange(BROKERS), source.random() < 0.5, frames, fingerprints, valid)


def _valid(source: random.Random, world: World, number: int) -> Attack:
    return _attack(source, number, "valid", [_frame(source, world)], valid=True)


def _mutated(source: random.Random, world: World, number: int) -> Attack:
    kind = source.choice(list(MUTATIONS))
    return _attack(source, number, kind, [_frame(source, world).mutated(source, kind)])


def _records(source: random.Random, world: World, number: int) -> Attack:
    kind = source.choice(list(LIES))
    return _attack(source, number, kind, [_produce(source, world, LIES[kind](source, world.now_ms))])


def _pipelined(source: random.Random, world: World, number: int) -> Attack:
    made = [_frame(source, world, place + 1) for place in range(source.randrange(2, PIPELINED))]
    if source.random() < 0.5:
        place = source.randrange(len(made))
        made[place] = made[place].mutated(source, source.choice(list(MUTATIONS)))
    return _attack(source, number, "pipelined", made)


def _dripping(source: random.Random, world: World, number: int) -> Attack:
    return _attack(source, number, Way.DRIPPING.value, [_frame(source, world)], Way.DRIPPING, valid=True)


def _silent(source: random.Random, world: World, number: int) -> Attack:
    return _attack(source, number, Way.SILENT.value, [_frame(source, world).begun(source)], Way.SILENT)


def _crowd(source: random.Random, world: World, number: int) -> Attack:
    return _attack(source, number, Way.CROWD.value, [_frame(source, world).begun(source)], Way.CROWD)


def _deaf(source: random.Random, world: World, number: int) -> Attack:
    apis = [source.choice((FETCH, METADATA, DESCRIBE_CONFIGS)) for _ in range(UNREAD)]
    frames = [request_frame(source, world, api, VERSIONS[api][-1], place) for place, api in enumerate(apis)]
    return _attack(source, number, Way.DEAF.value, [_Made(frame, []) for frame in frames], Way.DEAF)


_KINDS: Final[dict[str, tuple[float, Callable[[random.Random, World, int], Attack]]]] = {
    "valid": (15, _valid),
    "mutated": (50, _mutated),
    "records": (25, _records),
    "pipelined": (5, _pipelined),
    "dripping": (2, _dripping),
    "silent": (2, _silent),
    "crowd": (0.3, _crowd),
    "deaf": (0.7, _deaf),
}


def _largest(source: random.Random, world: World, number: int) -> Attack:
    batch = honest(source, world.now_ms)
    kind, frame = any_largest(source, world, batch)
    return _greeted(_attack(source, number, kind, [_Made(frame, storable(batch))]))


def _largest_of_a_member(source: random.Random, world: World, number: int) -> Attack:
    """From who has joined a group."""
    batch = honest(source, world.now_ms)
    joined = request_frame(source, world, JOIN_GROUP, JOINS_AT_ONCE, 2)
    kind, frame = any_largest(source, world, batch)
    made = [_Made(joined, []), _Made(frame, storable(batch))]
    return _greeted(_attack(source, number, f"{kind}, of a member", made))


def _greeted(attack: Attack) -> Attack:
    return attack._replace(greets=True)  # else brokers take no large request


_LARGEST: Final[dict[str, tuple[float, Callable[[random.Random, World, int], Attack]]]] = {
    "largest": (3, _largest),
    "largest of a member": (1, _largest_of_a_member),
}
