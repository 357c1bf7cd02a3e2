"""What commands print: tables on a terminal, tab-separated lines in a pipe, JSON where it is asked for."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OutputFormat(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    TSV = "tsv"
    JSON = "json"


class OutputClosed(Exception):
    """Nobody reads our output any more. Not an OSError: typer would end the program with an exit code of its own."""


@dataclass(frozen=True)
class Table:
    """Rows under column names."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def show(tables: Sequence[Table], value: Any, output_format: OutputFormat | None) -> None:
    """Print the tables, or ``value`` as JSON; without a format a table on a terminal and lines in a pipe."""
    chosen = output_format or (OutputFormat.TABLE if sys.stdout.isatty() else OutputFormat.TSV)
    if chosen is OutputFormat.JSON:
        write_line(to_json(value, indent=2))
    elif chosen is OutputFormat.TSV:
        write_line("\n\n".join(map(_as_lines, tables)))
    else:
        _show_rich(tables)


def to_json(value: Any, indent: int | None = None) -> str:
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False)


def write_line(text: str) -> None:
    write(text.encode() + b"\n")


def write(data: bytes) -> None:
    """To standard output; OutputClosed if it goes nowhere."""
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        raise OutputClosed from None


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def abandon_output() -> None:
    """Let what is still buffered go nowhere, so that Python does not complain about it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """For the person who watches: standard error, so that it does not end up among the data."""
    print(text, file=sys.stderr, flush=True)


def _as_lines(table: Table) -> str:
    return "\n".join("\t".join(_one_field(cell) for cell in row) for row in (table.columns, *table.rows))


def _one_field(cell: object) -> str:
    """A cell as one field of one line, whatever it holds."""
    return _text(cell).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _show_rich(tables: Sequence[Table]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    try:
        for number, table in enumerate(tables):
            if number:
                console.print()
            drawn = RichTable(box=None, padding=(0, 2, 0, 0), header_style="bold")
            for name in table.columns:
                drawn.add_column(name, overflow="fold")
            for row in table.rows:
                drawn.add_row(*(Text(_text(cell)) for cell in row))  # Text: brackets in names are no markup
            console.print(drawn)
    except BrokenPipeError:
        raise OutputClosed from None
