"""The report tells what happened, stands alone, and lets nothing through that a record or a log could put into it."""

import re
from xml.etree import ElementTree

from ottla.chaos.checker import check
from ottla.chaos.faults import Fault, Kind, Role, Step
from ottla.chaos.history import Event, Expectation, History, Read, Send
from ottla.chaos.report.page import page
from ottla.chaos.report.series import percentile, series
from ottla.chaos.report.summary import summary, told
from ottla.chaos.run import Outcome


def outcome(history: History) -> Outcome:
    steps = [Step(3.0, 5.0, Fault(Kind.KILL, Role.LEADER), True)]
    missing = {Kind.CLOCK: "one clock for all"}
    return Outcome("kill-leader", "local", 42, 20, "t", 1, steps, 100.0, history, check(history), ["slow x"], missing)


def acked(number: int, began: float) -> Send:
    send = Send("p", number, began)
    send.acknowledged(0, number, began + 0.010)
    return send


EVENTS = [
    Event(100.0, "leader", "partition 0: broker0 leads, epoch 0", targets=("0", "0")),
    Event(100.0, "isr", "partition 0: in sync 0,1,2", targets=("0", "0,1,2")),
    Event(103.0, "fault", "kill broker0 (leader)", 108.0, ("broker0",)),
    Event(103.2, "leader", "partition 0: broker1 leads, epoch 1", targets=("0", "1")),
]
SENDS = [acked(number, 100.0 + number * 0.1) for number in range(100)]
READS = {0: [Read(number, send.value) for number, send in enumerate(SENDS)]}
GOOD = outcome(History(SENDS, READS, events=EVENTS))
LOST = outcome(History(SENDS, {0: READS[0][:35]}, events=EVENTS))


def test_page_stands_alone() -> None:
    text = page(GOOD)
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert re.search(r"(src|href|url)\s*[=(]", text) is None
    assert "prefers-color-scheme: dark" in text


def test_timeline_is_well_formed_and_has_the_fault_and_both_leaders() -> None:
    svg = re.search(r"<svg.*</svg>", page(GOOD), re.DOTALL)
    assert svg is not None
    titles = [node.text or "" for node in ElementTree.fromstring(svg[0]).iter() if node.tag.endswith("title")]
    assert "kill broker0 (leader): 3.0 s to 8.0 s" in titles
    assert any(title.startswith("broker0 leads, in sync: 0,1,2") for title in titles)
    assert any(title.startswith("broker1 leads") for title in titles)


def test_violations_are_told_with_what_happened_around_them() -> None:
    found = summary(LOST)
    assert found["violation_kinds"] == {"lost": 65}
    assert found["details"][0]["what"].startswith("b'p-35' was acknowledged at partition 0 offset 35")
    assert [event["what"] for event in found["details"][0]["around"]] == [event.what for event in EVENTS[2:]]
    assert "65 violations" in page(LOST)
    assert told(LOST).splitlines()[-1].startswith("  b'p-39'")


def test_sound_run_says_so_and_how_to_see_it_again() -> None:
    assert told(GOOD).endswith("0 violations")
    assert "ottla chaos run --scenario kill-leader --seconds 20 --seed 42 --target local" in page(GOOD)
    assert "one clock for all" in told(GOOD)
    assert "0 of 1 faults took effect" in told(GOOD)
    assert "left out: slow x" in told(GOOD)


def test_markup_in_what_is_told_stays_text() -> None:
    evil = History([], {}, events=[Event(1.0, "fault", "<script>kill</script>", 2.0, ("<b>",))], troubles=["<script>"])
    text = page(outcome(evil))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_empty_run_has_a_page_too() -> None:
    assert "no progress" in page(outcome(History([], {}, expectations=[Expectation(100, 101, (0,), 1, "calm")])))


def test_series_counts_acks_when_they_came_and_latency_when_it_began() -> None:
    late = Send("p", 0, 100.2)
    late.acknowledged(0, 0, 101.7)
    points = series([late, Send("p", 1, 100.3)], 100.0, 102.0)
    assert [point.rate for point in points] == [0, 0, 0, 2.0, 0]
    assert points[0].p50_ms is not None
    assert round(points[0].p50_ms) == 1500
    assert points[1].p50_ms is None


def test_percentiles_of_few_numbers() -> None:
    assert percentile([], 0.5) is None
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0
