"""The fuzzer's pure parts: what it begins with is valid, what it makes of that is not always, and answers are read strictly."""

import random
from typing import Any

import pytest

from ottla.chaos.fuzz import batches
from ottla.chaos.fuzz.answers import Unreadable, asked_by, error_codes, expects_answer, frames_of, kind_of, read_answer
from ottla.chaos.fuzz.attacks import Way, make_attack
from ottla.chaos.fuzz.mutations import MUTATIONS
from ottla.chaos.fuzz.requests import TARGETS, World, request_frame
from ottla.chaos.fuzz.schemas import API_VERSIONS, FETCH, METADATA, PRODUCE, VERSIONS
from ottla.wire.batch import check_produced, stamp_max_timestamp
from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import NotController, OttlaError, RemoteProtocolError
from ottla.wire.kafka.refused import REFUSED
from ottla.wire.kafka.schemas import write_response
from ottla.wire.payload_check import check_payload
from ottla.wire.request_limits import LongRequest
from tests.support.kafka_dialect import IDS, dialect_of_two_topics

NOW_MS = 1_790_000_000_000
WORLD = World(dict(zip(TARGETS, IDS.values(), strict=True)), NOW_MS)
EVERY = [(api, version) for api, versions in VERSIONS.items() for version in versions]
DIALECT = dialect_of_two_topics()


def _read(frame: bytes) -> Any:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    body = memoryview(bytearray(frame))[4:]
    try:
        return DIALECT.read_request(body)
    except LongRequest:
        return DIALECT.read_long_request(body)


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_it_begins_with_is_a_valid_request_and_its_refusal_is_read_to_the_end(api: int, version: int) -> None:
    source = random.Random(f"{api}/{version}")
    for number in range(20):
        frame = request_frame(source, WORLD, api, version, number)
        try:
            request = _read(frame)
        except RemoteProtocolError:  # with acks=0 there is no other way to tell of an id that nobody knows
            assert not expects_answer(frame)
            continue
        assert isinstance(request, UnreadableRequest if api in REFUSED else IncomingRequest)
        assert (request.api, request.version, request.correlation_id) == (api, version, number)
        answer = b"".join(bytes(piece) for piece in DIALECT.encode_error(request, NotController("no")))
        asked = asked_by(frame)
        assert asked is not None
        read_answer(asked, answer[4:])
        with pytest.raises(Unreadable):
            read_answer(asked, answer[4:] + b"\0")
        with pytest.raises(Unreadable):
            read_answer(asked, answer[4:-1])


@pytest.mark.parametrize("kind", MUTATIONS)
def test_every_mutation_ends_as_a_request_an_error_or_a_closed_connection(kind: str) -> None:
    source = random.Random(kind)
    outcomes = set()
    for _ in range(300):
        api, version = source.choice(EVERY)
        spoilt = MUTATIONS[kind](source, request_frame(source, WORLD, api, version, 7))
        for frame in frames_of(spoilt):
            try:
                outcomes.add(type(_read(frame)))
            except RemoteProtocolError:
                outcomes.add(RemoteProtocolError)
    assert outcomes <= {IncomingRequest, UnreadableRequest, RemoteProtocolError}


def test_the_same_seed_and_number_are_the_same_attack() -> None:
    kinds = set()
    for number in range(400):
        attack = make_attack(5, number, WORLD)
        assert attack == make_attack(5, number, WORLD)
        kinds.add(attack.way)
    assert make_attack(6, 0, WORLD) != make_attack(5, 0, WORLD)
    assert kinds == set(Way)


def test_honest_batches_are_taken_and_what_lies_is_not_stored_under_a_wrong_crc() -> None:
    source = random.Random(1)
    for _ in range(100):
        batch = batches.honest(source, NOW_MS)
        check_payload(memoryview(batch), check_produced(batch))
        assert batches.storable(batch) == [batches.fingerprint(batch)]
        stamped = bytearray(batch)
        stamp_max_timestamp(stamped, 0, check_produced(batch), NOW_MS + 5)
        assert batches.storable(bytes(stamped)) == batches.storable(batch)
        spoilt = batches.wrong_crc(source, NOW_MS)
        with pytest.raises(OttlaError):
            check_produced(spoilt)
        assert batches.storable(spoilt) == []


@pytest.mark.parametrize("kind", batches.LIES)
def test_what_may_be_stored_of_a_lie_is_known(kind: str) -> None:
    source = random.Random(kind)
    for _ in range(50):
        lie = batches.LIES[kind](source, NOW_MS)
        try:
            header = check_produced(lie)
        except OttlaError:
            continue
        assert batches.fingerprint(lie[: header.size]) in batches.storable(lie)


def test_answers_are_told_by_their_errors_wherever_they_stand() -> None:
    frame = request_frame(random.Random(1), WORLD, METADATA, 12, 9)
    asked = asked_by(frame)
    assert asked == (METADATA, 12, 9)
    values = {"topics": [{"error_code": 0, "name": "a"}, {"error_code": 3, "name": "b"}]}
    answer = (9).to_bytes(4, "big") + b"\0" + bytes(write_response(METADATA, 12, values))
    codes = error_codes(read_answer(asked, answer))
    assert codes == {0, 3}
    assert (kind_of(codes), kind_of({0}), kind_of({-1})) == ("UNKNOWN_TOPIC_OR_PARTITION", "ok", "UNKNOWN_SERVER_ERROR")
    with pytest.raises(Unreadable, match="correlation id"):
        read_answer(asked._replace(correlation_id=8), answer)
    with pytest.raises(Unreadable, match="not advertised"):
        read_answer(asked._replace(version=99), answer)


def test_frames_are_cut_as_a_broker_cuts_them() -> None:
    first, second = (request_frame(random.Random(1), WORLD, api, VERSIONS[api][0], 1) for api in (API_VERSIONS, FETCH))
    assert frames_of(first + second) == [first, second]
    assert frames_of(first + second[:-1]) == [first]
    assert frames_of(b"\xff" * 20 + first) == []


def test_produce_without_acks_expects_no_answer() -> None:
    for version in VERSIONS[PRODUCE]:
        seen = set()
        for seed in range(40):
            frame = request_frame(random.Random(seed), WORLD, PRODUCE, version, 1)
            try:
                request = _read(frame)
            except RemoteProtocolError:
                assert not expects_answer(frame)
                continue
            assert expects_answer(frame) == (request.message.acks != 0)
            seen.add(request.message.acks)
        assert 0 in seen or version == VERSIONS[PRODUCE][-1]
        assert seen >= {1, -1}
