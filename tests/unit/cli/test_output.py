"""Tables, tab-separated lines and JSON."""

import json

import pytest

from ottla.cli.output import OutputFormat, Table, show

TABLE = Table(("Name", "Count"), [("a", 1), ("b\tc\nd", None)])


def test_piped_output_is_one_tab_separated_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    show([TABLE, Table(("X",), [(1,)])], None, None)
    assert capsys.readouterr().out == "Name\tCount\na\t1\nb\\tc\\nd\t\n\nX\n1\n"


def test_json_shows_the_value_and_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show([TABLE], {"name": "é"}, OutputFormat.JSON)
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": "é"}
    assert "é" in out


def test_table_shows_every_cell_and_takes_brackets_literally(capsys: pytest.CaptureFixture[str]) -> None:
    show([Table(("Name", "Count"), [("[red]x[/red]", 5)])], None, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert "Name" in out
