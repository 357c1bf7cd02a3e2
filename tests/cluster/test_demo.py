"""The demo tells the truth, and says so with its exit code."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.records import FetchedBatch
from ottla.local import LocalCluster, demo, spark_story
from ottla.local.story import Story

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RECORD_COUNT", 30_000)
    monkeypatch.setattr(demo, "STORM_S", 0.3)
    monkeypatch.setattr(spark_story, "HOSTS", 5)


def test_demo_ends_with_0_and_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    told = capsys.readouterr().out
    assert "wrote 30,000 records" in told
    assert "acknowledged records are where they were" in told
    assert "every count, average, least and most is exact" in told
    assert "NOT TRUE" not in told
    assert "\x1b" not in told


def test_demo_notices_lost_records(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = demo.read_batches

    def with_a_hole(bootstrap: str, topic: str, count: int) -> Iterator[FetchedBatch]:
        batches = whole(bootstrap, topic, count)
        next(batches)
        yield from batches

    monkeypatch.setattr(demo, "read_batches", with_a_hole)
    monkeypatch.setattr(demo, "watch_metrics", lambda story, cluster: None)
    assert demo.main() == 1
    told = capsys.readouterr().out
    for claim in ("read and checked", "exactly once", "without a gap", "acknowledged records"):
        assert any("NOT TRUE" in line and claim in line for line in told.splitlines()), claim


class WrongJob:
    """Stands in for the Spark job, and gives a table with one wrong count."""

    def __init__(self, bootstrap: str) -> None:
        pass

    def __enter__(self) -> "WrongJob":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait_started(self) -> None:
        pass

    def wait_batch(self) -> bool:
        return True

    def wait_windows(self, expected: spark_story.Windows) -> tuple[spark_story.Windows, int]:
        key, (count, *rest) = next(iter(expected.items()))
        return {**expected, key: (count + 1, *rest)}, len(expected)  # type: ignore[dict-item]


def test_demo_notices_a_wrong_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(spark_story, "SparkJob", WrongJob)
    story = Story()
    with LocalCluster(brokers=3) as cluster:
        spark_story.watch_metrics(story, cluster)
    assert story.failed
    assert "NOT TRUE: 300 windows" in capsys.readouterr().out


def test_demo_goes_on_where_spark_cannot_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As where pyspark is there, for ZooKeeper's jars, and pyarrow is not."""
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')")
    story = Story()
    with LocalCluster(brokers=3) as cluster:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        spark_story.watch_metrics(story, cluster)
    assert not story.failed
    told = capsys.readouterr().out
    assert (
        "Spark cannot start here, so this chapter is left out: error: this needs pyarrow, which is not installed"
        in told
    )
