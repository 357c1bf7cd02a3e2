"""Where ``consume -o`` begins."""

import pytest

from ottla.cli.start_offsets import (
    Origin,
    Start,
    choose_offset,
    outside_the_log,
    parse_start,
    parse_starts,
    parse_time,
)
from ottla.wire.errors import ConfigError
from ottla.wire.names import TopicPartition


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(Origin.EARLIEST)),
        ("beginning", Start(Origin.EARLIEST)),
        ("latest", Start(Origin.LATEST)),
        ("end", Start(Origin.LATEST)),
        ("17", Start(Origin.OFFSET, 17)),
        ("-5", Start(Origin.LATEST, 5)),
        ("@1700000000000", Start(Origin.TIME, 1_700_000_000_000)),
    ],
)
def test_every_way_to_name_a_start_is_understood(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "first", "1.5", "--3", "@", "@-1", "+4", "٣", "9" * 30])
def test_nonsense_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_start(text)
    assert "earliest" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("earliest", 10), ("latest", 20), ("15", 15), ("0", 10), ("99", 20), ("-3", 17), ("-100", 10)],
)
def test_start_lies_inside_the_log(text: str, expected: int) -> None:
    assert choose_offset(parse_start(text), earliest=10, latest=20, at_time=None) == expected


def test_time_begins_at_its_offset_and_at_the_end_if_all_is_older() -> None:
    assert choose_offset(parse_start("@5"), 10, 20, at_time=13) == 13
    assert choose_offset(parse_start("@5"), 10, 20, at_time=None) == 20


def test_times_are_milliseconds_iso_or_relative() -> None:
    assert parse_time("1700000000000", 0) == 1_700_000_000_000
    assert parse_time("1970-01-01T00:00:01Z", 0) == 1000
    assert parse_time("1970-01-01T01:00:00+01:00", 0) == 0
    assert parse_time("-15m", 1000.0) == 100_000
    assert parse_time("-2d", 200_000.0) == 27_200_000
    assert parse_time("yesterday", 0) is None
    assert parse_start("@1970-01-01T00:00:01Z") == Start(Origin.TIME, 1000)


def test_partitions_may_begin_at_different_places() -> None:
    assert parse_starts("17") == (Start(Origin.OFFSET, 17), {})
    assert parse_starts("0:17,2:latest") == (None, {0: Start(Origin.OFFSET, 17), 2: Start(Origin.LATEST)})
    assert parse_starts("@1970-01-01T00:00:01Z") == (Start(Origin.TIME, 1000), {})
    for wrong in ("0:", "x:1", "0:1,0:2", "0:1,2"):
        with pytest.raises(ConfigError):
            parse_starts(wrong)


def test_offsets_that_are_not_there_are_named_and_many_of_them_counted() -> None:
    places = [TopicPartition("t", number) for number in range(5)]
    earliest, latest = dict.fromkeys(places, 2), dict.fromkeys(places, 7)
    for fine in (Start(Origin.OFFSET, 2), Start(Origin.OFFSET, 7), Start(Origin.LATEST, 99), Start(Origin.TIME, 1)):
        assert outside_the_log(dict.fromkeys(places, fine), earliest, latest) is None
    one = outside_the_log({places[0]: Start(Origin.OFFSET, 8)}, earliest, latest)
    assert one == "offsets outside the log, the nearer end is taken: t[0] has 2 to 7, not 8"
    all_of_them = outside_the_log(dict.fromkeys(places, Start(Origin.OFFSET, 1)), earliest, latest)
    assert all_of_them is not None
    assert all_of_them.endswith("t[2] has 2 to 7, not 1 and 2 more")
