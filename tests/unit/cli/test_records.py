"""Records as the command line prints them."""

import json

import pytest

from ottla.cli.records import bytes_value, record_printer
from ottla.client.records import Record
from ottla.wire.errors import ConfigError

RECORD = Record("orders", 2, 41, 1_700_000_000_000, 0, b"k", b"v", (("h", b"1"), ("n", None)))
TOMBSTONE = Record("orders", 0, 7, 5, 0, None, None, ())


def test_percent_format_shows_every_field() -> None:
    shown = record_printer(r"%t[%p]@%o %k=%v %s %T %h %K %S\n")(RECORD)
    assert shown == b"orders[2]@41 k=v v 1700000000000 h=1,n= 1 1\n"


def test_missing_key_and_value_are_empty_and_of_length_minus_one() -> None:
    assert record_printer("<%k><%v> %K %S")(TOMBSTONE) == b"<><> -1 -1"


def test_escapes_percent_signs_and_plain_text_are_kept() -> None:
    assert record_printer(r"100%% a\tb\\n\q é")(RECORD) == "100% a\tb\\n\\q é".encode()


def test_bytes_that_are_no_text_are_printed_as_they_are() -> None:
    record = Record("t", 0, 0, 0, 0, None, b"\xff\x00\x01", ())
    assert record_printer("%v")(record) == b"\xff\x00\x01"


@pytest.mark.parametrize("bad", ["%x", "%v %", "%"])
def test_unknown_verb_is_refused_with_the_known_ones(bad: str) -> None:
    with pytest.raises(ConfigError) as caught:
        record_printer(bad)
    assert "%t topic" in (caught.value.hint or "")


def test_a_mere_word_is_refused_as_a_format_but_for_json() -> None:
    assert record_printer("JSON") is record_printer("json")
    with pytest.raises(ConfigError, match="shows nothing of a record"):
        record_printer("table")


def test_json_is_one_object_per_line() -> None:
    line = record_printer("json")(RECORD)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
    }


def test_json_value_with_a_line_break_stays_on_one_line() -> None:
    record = Record("t", 0, 0, 0, 0, None, b"a\nb", ())
    assert record_printer("json")(record).count(b"\n") == 1


def test_bytes_are_text_where_they_are_utf8_else_base64() -> None:
    assert bytes_value("grüße".encode()) == "grüße"
    assert bytes_value(b"\xff\xfe") == {"base64": "//4="}
    assert bytes_value(b"") == ""
    assert bytes_value(None) is None
