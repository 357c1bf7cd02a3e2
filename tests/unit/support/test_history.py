"""The history checker finds every kind of violation, and only those."""

from tests.support.history import Read, Reads, Send, check, report


def acked(number: int, offset: int | None, *, began: float = 0.0, ended: float = 1.0, producer: str = "a") -> Send:
    send = Send(producer, number, began)
    send.acknowledged(0, offset, ended)
    return send


def unknown(number: int) -> Send:
    return Send("a", number, 0.0)


def refused(number: int) -> Send:
    send = Send("a", number, 0.0)
    send.refused(1.0)
    return send


def reads(*values: str) -> Reads:
    return {0: [Read(offset, value.encode()) for offset, value in enumerate(values)]}


def kinds(sends: list[Send], found: Reads) -> list[str]:
    return [violation.kind for violation in check(sends, found)]


def test_good_history_has_no_violation() -> None:
    sends = [acked(0, 0), acked(1, 1), acked(0, 2, producer="b"), acked(2, None)]
    assert check(sends, reads("a-0", "a-1", "b-0", "a-2")) == []


def test_empty_history_has_no_violation() -> None:
    assert check([], {}) == []
    assert check([], {0: []}) == []


def test_unknown_write_may_be_there_or_not() -> None:
    assert check([unknown(0), acked(1, 0)], reads("a-1")) == []
    assert check([unknown(0), acked(1, 1)], reads("a-0", "a-1")) == []


def test_lost_write_is_found_at_the_end_and_in_the_middle() -> None:
    assert kinds([acked(0, 0), acked(1, 1)], reads("a-0")) == ["lost"]
    middle = check([acked(0, 0), unknown(1), acked(2, 1)], reads("a-0", "a-1"))
    assert [violation.kind for violation in middle] == ["lost"]
    assert "in the middle" in middle[0].what
    assert kinds([acked(0, 0)], {0: []}) == ["lost"]


def test_acknowledged_write_without_an_offset_must_be_there_too() -> None:
    assert kinds([acked(0, None)], {0: []}) == ["lost"]


def test_duplicate_is_found() -> None:
    assert kinds([acked(0, 0)], reads("a-0", "a-0")) == ["duplicate"]
    both = {0: [Read(0, b"a-0")], 1: [Read(0, b"a-0")]}
    assert "duplicate" in kinds([unknown(0)], both)


def test_write_at_another_offset_than_was_said_is_found() -> None:
    assert kinds([acked(0, 1), unknown(1)], reads("a-0", "a-1")) == ["inconsistent offset"]


def test_two_values_at_one_offset_are_found() -> None:
    found = {0: [Read(0, b"a-0"), Read(0, b"a-1")]}
    assert "inconsistent offset" in kinds([unknown(0), unknown(1)], found)


def test_one_offset_given_to_two_writes_is_found() -> None:
    assert "inconsistent offset" in kinds([acked(0, 0), acked(1, 0)], reads("a-0"))


def test_failed_write_that_is_seen_is_found() -> None:
    assert kinds([refused(0)], reads("a-0")) == ["failed write seen"]
    assert check([refused(0)], {0: []}) == []


def test_value_that_nobody_sent_is_found() -> None:
    assert kinds([], reads("a-0")) == ["never sent"]


def test_skipped_offset_is_found() -> None:
    assert kinds([acked(0, 0), acked(1, 2)], {0: [Read(0, b"a-0"), Read(2, b"a-1")]}) == ["skip"]
    assert kinds([acked(0, 1)], {0: [Read(1, b"a-0")]}) == ["skip"]


def test_read_that_goes_back_is_found() -> None:
    found = {0: [Read(0, b"a-0"), Read(1, b"a-1"), Read(0, b"a-0")]}
    assert kinds([acked(0, 0), acked(1, 1)], found) == ["non-monotonic read"]


def test_later_send_that_is_stored_earlier_is_found() -> None:
    assert kinds([acked(0, 1), acked(1, 0)], reads("a-1", "a-0")) == ["non-monotonic send"]


def test_order_of_different_producers_is_free() -> None:
    assert check([acked(5, 1), acked(0, 0, producer="b"), acked(6, 2)], reads("b-0", "a-5", "a-6")) == []


def test_write_that_began_after_an_ack_and_stands_before_it_is_found() -> None:
    late = [acked(0, 1, began=0.0, ended=1.0), acked(0, 0, began=2.0, ended=3.0, producer="b")]
    assert kinds(late, reads("b-0", "a-0")) == ["stored in the past"]
    together = [acked(0, 1, began=0.0, ended=1.0), acked(0, 0, began=0.5, ended=3.0, producer="b")]
    assert check(together, reads("b-0", "a-0")) == []


def test_report_counts_the_kinds_and_shows_some() -> None:
    text = report(check([acked(number, number) for number in range(20)], {0: []}))
    assert text.startswith("lost: 20\n")
    assert len(text.splitlines()) == 6
