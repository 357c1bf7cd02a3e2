"""The demo tells the truth, and says so with its exit code."""

from collections.abc import Iterator

import pytest

from ottla.client.records import FetchedBatch
from ottla.local import demo

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RECORD_COUNT", 30_000)
    monkeypatch.setattr(demo, "STORM_S", 0.3)


def test_demo_ends_with_0_and_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    told = capsys.readouterr().out
    assert "wrote 30,000 records" in told
    assert "acknowledged records are where they were" in told
    assert "NOT TRUE" not in told
    assert "\x1b" not in told


def test_demo_notices_lost_records(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = demo.read_batches

    def with_a_hole(bootstrap: str, topic: str, count: int) -> Iterator[FetchedBatch]:
        batches = whole(bootstrap, topic, count)
        next(batches)
        yield from batches

    monkeypatch.setattr(demo, "read_batches", with_a_hole)
    assert demo.main() == 1
    told = capsys.readouterr().out
    for claim in ("read and checked", "exactly once", "without a gap", "acknowledged records"):
        assert any("NOT TRUE" in line and claim in line for line in told.splitlines()), claim
