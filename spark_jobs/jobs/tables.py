"""Rows for people: columns side by side, numbers to the right."""

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """As text. None is an empty cell."""
    texts = [list(columns), *([cell_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in texts) for index in range(len(columns))]
    right = [all(isinstance(row[index], int | float | None) for row in rows) for index in range(len(columns))]
    lines = [
        "  ".join(
            text.rjust(width) if flush_right else text.ljust(width)
            for text, width, flush_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    ]
    return "\n".join(lines)


def cell_text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.1f}"
