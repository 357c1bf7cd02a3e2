"""What jobs are told and tell, without Spark."""

import tarfile

import pytest

from ottla.local.sample_metrics import sample_metrics
from ottla.spark_jobs.jobs import JOBS
from ottla.spark_jobs.jobs.packing import closure, pack
from ottla.spark_jobs.jobs.program import find_job, parsed, sentence
from ottla.spark_jobs.jobs.statistics_page import bar_chart, nice
from ottla.spark_jobs.jobs.streams import progress_line, records_left
from ottla.spark_jobs.jobs.tables import table
from ottla.spark_jobs.jobs.topic_statistics import BUCKETS_MAX, step_for
from ottla.wire.errors import ConfigError, OttlaError


@pytest.mark.parametrize("name", JOBS)
def test_every_job_can_be_told_what_to_do_and_says_how(name, capsys):
    assert callable(find_job(name).run)
    with pytest.raises(SystemExit):
        parsed(name, ["--help"], "ottla spark run")
    told = capsys.readouterr().out
    assert "--bootstrap" in told
    assert "TOPIC" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[X] it broke\n\tat java", "[X] it broke"),
        ("[PY] failed: Traceback (most recent call last):\n  File x\n    y\nModuleNotFoundError: No module named 'a'\n", None),
        ("[PY] x\nTraceback (most recent call last):\n  File x\nKeyError: 'a'\nat java", "KeyError: 'a'"),
        ("[PY] Error: ottla.wire.errors.ConfigError: option x='y'; give z\n at", "option x='y'; give z"),
    ],
)  # fmt: skip
def test_a_failure_of_spark_is_one_sentence(text, told):
    assert sentence(text) == (told or "ModuleNotFoundError: No module named 'a'")


def test_a_line_for_a_batch_says_how_much_how_fast_and_how_much_is_left():
    progress = {
        "batchId": 3,
        "numInputRows": 1000,
        "durationMs": {"triggerExecution": 500},
        "sources": [
            {"endOffset": '{"t": {"0": 900}, "@ids": {"t": "x"}}', "latestOffset": '{"t": {"0": 950, "1": 5}}'}
        ],
        "observedMetrics": {"not_understood": (2,)},
    }
    assert progress_line(progress) == (
        "batch 3: 1,000 records in 0.5 s (2,000/s), 55 behind, 2 not understood and passed over"
    )
    assert records_left({"t": {}}, None) is None


def test_columns_of_numbers_stand_to_the_right():
    assert table(("name", "n"), [("a", 1234), ("long", None)]) == "name      n\na     1,234\nlong"


@pytest.mark.parametrize("seconds", [0, 1, 119, 121, 3600, 86400, 10**9])
def test_a_chart_has_room_for_all_time(seconds):
    assert seconds / step_for(seconds) <= BUCKETS_MAX
    assert step_for(1) == 1


def test_names_in_charts_are_no_markup():
    assert "<b>" not in bar_chart("<b>", [("<b>", 3)])
    assert (nice(0), nice(11), nice(300)) == (1, 20, 300)


def test_samples_are_the_same_for_the_same_seed_and_one_host_is_in_trouble():
    first, again = (list(sample_metrics(3, 300, 0, seed=5)) for _ in range(2))
    assert first == again
    high = {one.host for one in first if one.metric == "cpu" and one.value > 90}
    assert high == {"web-2"}


def test_an_environment_has_the_light_parts_and_their_dependencies_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.spark_jobs.jobs.packing.NEEDED", ("msgspec",))
    packed = pack(tmp_path / "e.tar.gz")
    assert packed.packages == ("ottla", "msgspec")
    with tarfile.open(tmp_path / "e.tar.gz") as archive:
        names = set(archive.getnames())
        assert archive.getmember("bin/python").mode == 0o755
    assert {"run.py", "lib/ottla/__init__.py", "lib/ottla/wire/batch.py", "lib/pyspark_ottla/__init__.py"} <= names
    assert {"lib/msgspec/__init__.py", "lib/ottla/spark_jobs/jobs/program.py"} <= names
    assert not [name for name in names if "/broker/" in name or "/cli/" in name or "__pycache__" in name]
    assert list(tmp_path.iterdir()) == [tmp_path / "e.tar.gz"]


def test_what_cannot_be_packed_is_told(tmp_path):
    with pytest.raises(OttlaError, match="no-such-thing is to be packed and is not installed"):
        list(closure(("no-such-thing",)))
    with pytest.raises(ConfigError, match="cannot be written"):
        pack(tmp_path / "nowhere" / "e.tar.gz")
