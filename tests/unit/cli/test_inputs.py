"""Records out of lines, JSON and files."""

import io
from pathlib import Path

import pytest

from ottla.cli.inputs import Input, Shape, files_of, parse_shape, records_of
from ottla.cli.records import record_printer, unescape
from ottla.client import Record
from ottla.wire.errors import ConfigError


def read(data: bytes, shape: Shape) -> list[Input]:
    return list(records_of(io.BytesIO(data), shape))


def shape(
    delimiter: str = "\\n", key_delimiter: str | None = None, input_format: str | None = None, null: bool = False
) -> Shape:
    return parse_shape(delimiter, key_delimiter, input_format, null_if_empty=null)


def test_lines_are_records_and_the_last_needs_no_end() -> None:
    assert [each.value for each in read(b"a\n\nb", shape())] == [b"a", b"", b"b"]
    assert [each.place for each in read(b"a\nb\n", shape())] == ["line 1", "line 2"]


def test_key_delimiter_splits_at_its_first_place() -> None:
    assert [(each.key, each.value) for each in read(b"a:b:c\n:v\n", shape(key_delimiter=":"))] == [
        (b"a", b"b:c"),
        (b"", b"v"),
    ]


def test_empty_is_null_where_that_is_wanted() -> None:
    assert [each.value for each in read(b"a\n\n", shape(null=True))] == [b"a", None]
    found = read(b"k:\n:v\n", shape(key_delimiter=":", null=True))
    assert [(each.key, each.value) for each in found] == [(b"k", None), (None, b"v")]


@pytest.mark.parametrize(("text", "data"), [(";", b"a;b\nc"), ("\\0", b"a\0b\nc\n"), ("\\x1e", b"a\x1eb\nc\x1e\n")])
def test_records_end_where_they_are_told_to(text: str, data: bytes) -> None:
    assert [each.value and each.value.rstrip() for each in read(data, shape(text))] == [b"a", b"b\nc"]


def test_long_input_is_cut_right_over_the_edges_of_reads() -> None:
    values = [b"x" * (n * 977 % 70_000) for n in range(50)]
    assert [each.value for each in read(b"--".join(values) + b"--", shape("--"))] == values


@pytest.mark.parametrize(
    "record",
    [
        Record("t", 3, 17, 1234, 0, b"k", b"v", (("h", b"1"), ("n", None))),
        Record("t", 0, 0, 0, 0, None, None, ()),
        Record("t", 0, 0, 0, 0, b"\xff", b"\xfe\n", (("h", b"\xfd"),)),
    ],
)
def test_what_consume_prints_as_json_can_be_produced(record: Record) -> None:
    [found] = read(record_printer("json")(record), shape(input_format="json"))
    assert (found.key, found.value, found.timestamp_ms) == (record.key, record.value, record.timestamp)
    assert tuple(found.headers or ()) == record.headers


@pytest.mark.parametrize(
    "line", ["{", "5", "{}", '{"value": 5}', '{"value": {"base64": "!"}}', '{"value": "", "headers": 5}',
             '{"value": "", "timestamp": "now"}'],
)  # fmt: skip
def test_wrong_json_is_told_with_its_line(line: str) -> None:
    with pytest.raises(ConfigError, match=r"^line 2: "):
        read(f'{{"value": "fine"}}\n{line}\n'.encode(), shape(input_format="json"))


def test_line_without_key_delimiter_is_refused_with_its_number() -> None:
    with pytest.raises(ConfigError, match=r"^line 2: .*no key delimiter"):
        read(b"k:v\nno key here\n", shape(key_delimiter=":"))


def test_files_are_records(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"")
    found = list(files_of([tmp_path / "a", tmp_path / "b"], Shape(null_if_empty=True)))
    assert [each.value for each in found] == [b"one\ntwo\n", None]


@pytest.mark.parametrize("wrong", [("", None, None), ("\\n", "", None), ("\\n", None, "xml"), (";", None, "json")])
def test_shapes_that_contradict_themselves_are_refused(wrong: tuple[str, str | None, str | None]) -> None:
    with pytest.raises(ConfigError):
        shape(*wrong)


def test_escapes() -> None:
    assert unescape(r"a\n\t\0\x41\\b\q") == b"a\n\t\0A\\b\\q"
    assert record_printer(r"%v\x00%o")(Record("t", 0, 5, 0, 0, None, b"v", ())) == b"v\x005"
