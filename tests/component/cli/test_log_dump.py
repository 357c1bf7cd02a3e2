"""``ottla log dump`` on files: what it shows, what it finds, and that it changes nothing."""

import json
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.wire.batch import stamp
from ottla.wire.records import encode_batch


def batch(base_offset: int, *values: bytes | None) -> bytes:
    data = encode_batch(list(values), keys=[b"k"] * len(values), timestamps=1000)
    stamp(data, 0, base_offset, 3)
    return bytes(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of two segments: offsets 0 to 2 in two batches, and 3."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(batch(0, b"a", b"b") + batch(2, b"\xff"))
    (partition / f"{3:020d}.log").write_bytes(batch(3, None))
    return partition


def test_folder_shows_the_batches_of_all_its_segments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[:4] for line in lines if line[0].isdigit()] == [
        ["0", "1", "2", "3"],
        ["2", "2", "1", "3"],
        ["3", "3", "1", "3"],
    ]


def test_one_segment_file_can_be_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(folder / f"{3:020d}.log"), "--format", "json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["base_offset"] == 3


def test_records_are_shown_as_json_with_bytes_as_text_or_base64(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "dump", str(folder), "--records", "--format", "json"]) == 0
    batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values = [record["value"] for shown in batches for record in shown["records"]]
    assert values == ["a", "b", {"base64": "/w=="}, None]
    assert [record["offset"] for shown in batches for record in shown["records"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_torn_end_is_told_with_its_position_and_ends_with_1(
    folder: Path, cut: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / f"{0:020d}.log"
    whole = path.read_bytes()
    first = len(batch(0, b"a", b"b"))
    path.write_bytes(whole[: first + cut])
    assert main(["log", "dump", str(path)]) == 1
    shown = capsys.readouterr()
    assert f"corrupt at position {first}" in shown.err
    assert shown.out.splitlines()[2].startswith("0\t1\t2")  # what was good is shown


def test_every_flipped_byte_but_the_leader_epoch_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / f"{0:020d}.log"
    whole = path.read_bytes()
    for position in range(len(whole)):
        at = position if position < len(batch(0, b"a", b"b")) else position - len(batch(0, b"a", b"b"))
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        code = main(["log", "dump", str(path)])
        assert code == (0 if 12 <= at < 16 else 1), f"byte {position}"
    capsys.readouterr()


def test_corruption_is_a_json_line_where_json_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f"{3:020d}.log").write_bytes(b"x" * 100)
    assert main(["log", "dump", str(folder), "--format", "json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("base_offset") for line in lines] == [0, 2, None]
    assert "corrupt at position 0" in lines[-1]["error"]


def test_dump_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f"{3:020d}.log").write_bytes(b"x" * 100)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    main(["log", "dump", str(folder), "--records"])
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_missing_path_and_folder_without_segments_end_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "dump", str(tmp_path / "nowhere")]) == 4
    assert main(["log", "dump", str(tmp_path)]) == 4
    assert "nowhere" in capsys.readouterr().err
