"""A producer's clock: how wrong it may be, and what it must not bring about."""

from pathlib import Path

import pytest

from ottla.broker.storage.topic_configs import parse_topic_config
from ottla.wire.errors import InvalidConfig, InvalidTimestamp
from tests.component.storage.conftest import MakeBatch, OpenLog

NOW_MS = 1_700_000_000_000
HOUR_MS = 3600 * 1000


@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS + HOUR_MS, 0, 1])
def test_a_timestamp_of_the_past_or_of_the_next_hour_is_taken(
    open_log: OpenLog, make_batch: MakeBatch, timestamp: int
) -> None:
    log = open_log()
    assert log.append_as_leader(make_batch(timestamp=timestamp), 0, NOW_MS).max_timestamp == timestamp


@pytest.mark.parametrize("ahead_ms", [HOUR_MS + 1, 24 * HOUR_MS, 2**62])
def test_a_timestamp_further_ahead_is_refused_and_nothing_is_appended_or_rolled(
    open_log: OpenLog, make_batch: MakeBatch, tmp_path: Path, ahead_ms: int
) -> None:
    log = open_log(segment_ms=1000)
    log.append_as_leader(make_batch(timestamp=NOW_MS), 0, NOW_MS)
    with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.after\.max\.ms is 3600000"):
        log.append_as_leader(make_batch(timestamp=NOW_MS + ahead_ms), 0, NOW_MS)
    assert log.log_end_offset == 1
    assert len(list(tmp_path.glob("t-0/*.log"))) == 1


def test_the_bounds_are_the_topics_own(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=5)
    for good in (NOW_MS - 10, NOW_MS + 5):
        log.append_as_leader(make_batch(timestamp=good), 0, NOW_MS)
    for bad in (NOW_MS - 11, NOW_MS + 6):
        with pytest.raises(InvalidTimestamp):
            log.append_as_leader(make_batch(timestamp=bad), 0, NOW_MS)


def test_a_record_without_a_timestamp_is_taken_whatever_the_bounds(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0)
    assert log.append_as_leader(make_batch(timestamp=-1), 0, NOW_MS).first_offset == 0


def test_where_the_broker_tells_the_time_the_producers_does_not_matter(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms=0)
    assert log.append_as_leader(make_batch(timestamp=2**62), 0, NOW_MS).max_timestamp == NOW_MS


def test_what_a_leader_took_its_follower_takes_whatever_the_time(open_log: OpenLog, make_stamped: MakeBatch) -> None:
    log = open_log(message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0)
    assert log.append_as_follower(make_stamped(0, 0, timestamp=5)) == 1


def test_the_bounds_have_kafkas_names() -> None:
    parsed = parse_topic_config({"message.timestamp.before.max.ms": "1", "message.timestamp.after.max.ms": "2"})
    assert parsed == {"message.timestamp.before.max.ms": 1, "message.timestamp.after.max.ms": 2}
    with pytest.raises(InvalidConfig):
        parse_topic_config({"message.timestamp.after.max.ms": "-1"})
