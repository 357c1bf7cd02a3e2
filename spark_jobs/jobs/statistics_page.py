"""The statistics of a topic as one HTML page with charts drawn by hand: nothing to install, nothing to load. Pure."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark_jobs.jobs.topic_statistics import Statistics

WIDTH, HEIGHT = 960, 180
LEFT, BOTTOM, TOP = 80, 24, 26

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1000px; padding: 0 1rem; color: #1c2733; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .2rem .8rem; text-align: right; }
th { border-bottom: 1px solid #9fb0c0; } tr:nth-child(even) td { background: #f3f6f9; }
svg { width: 100%; height: auto; } .bar { fill: #2f7fb5; } .lag { fill: #d9822b; } .grid { stroke: #dde4ea; }
text { font: 12px system-ui, sans-serif; fill: #51606f; } .title { font-weight: 600; fill: #1c2733; }
"""


def page(found: "Statistics") -> str:
    """A whole page."""
    records, size = sum(one.records for one in found.partitions), sum(one.bytes for one in found.partitions)
    parts = [
        f"<h1>{escape(found.topic)}</h1>",
        f"<p>{records:,} records and {size:,} bytes in {len(found.partitions)} partition(s), seen {_utc(found.at_ms)}.</p>",
    ]
    if found.course:
        labels = [_utc(at) for at, _, _ in found.course]
        for title, column in ((f"records in {found.step_s} s", 1), (f"bytes in {found.step_s} s", 2)):
            parts.append(time_chart(title, found.course, column, found.step_s, labels))
        parts.append(bar_chart("records by partition", [(str(p.partition), p.records) for p in found.partitions]))
    if found.lags:
        bars = [(f"{group} {partition}", seconds) for group, partition, _, seconds in found.lags]
        parts.append(bar_chart("seconds behind, by group and partition", bars, "lag"))
    parts.append(
        _table(
            ("partition", "records", "bytes", "keys (about)", "smallest", "median", "p99", "largest", "oldest", "newest"),
            [
                (p.partition, p.records, p.bytes, p.keys, p.smallest, p.median, p.p99, p.largest, _utc(p.oldest_ms),
                 _utc(p.newest_ms))
                for p in found.partitions
            ],
        )
    )  # fmt: skip
    if found.lags:
        parts.append(_table(("group", "partition", "records behind", "seconds behind"), found.lags))
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(found.topic)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def time_chart(
    title: str, course: Sequence[tuple[int, int, int]], column: int, step_s: int, labels: Sequence[str]
) -> str:
    """A bar for each step of time, where it is: steps without records are holes."""
    first, last = course[0][0], course[-1][0] + step_s * 1000
    top = nice(max(point[column] for point in course))
    scale = (WIDTH - LEFT) / max(last - first, 1)
    width = max(1.0, step_s * 1000 * scale - 1)
    bars = [
        _bar(LEFT + (point[0] - first) * scale, width, point[column], top, f"{label}: {point[column]:,}")
        for point, label in zip(course, labels, strict=True)
    ]
    ends = f'<text x="{LEFT}" y="{HEIGHT - 6}">{labels[0]}</text>'
    if len(labels) > 1:
        ends += f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{labels[-1]}</text>'
    return _svg(title, top, "".join(bars) + ends)


def bar_chart(title: str, bars: Sequence[tuple[str, float]], kind: str = "bar") -> str:
    """A bar for each name; the names stand under them as long as there is room."""
    top = nice(max((value for _, value in bars), default=1))
    room = (WIDTH - LEFT) / max(len(bars), 1)
    drawn = []
    for index, (name, value) in enumerate(bars):
        x = LEFT + index * room
        drawn.append(_bar(x, max(1.0, room - 4), value, top, f"{name}: {value:,}", kind))
        if room > 7 * len(name):
            drawn.append(f'<text x="{x + room / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(name)}</text>')
    return _svg(title, top, "".join(drawn))


def nice(number: float) -> float:
    """The next round number."""
    if number <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(power * step for step in (1, 2, 3, 5, 10) if power * step >= number)


def _bar(x: float, width: float, value: float, top: float, tip: str, kind: str = "bar") -> str:
    height = (HEIGHT - BOTTOM - TOP) * value / top
    y = HEIGHT - BOTTOM - height
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _svg(title: str, top: float, inside: str) -> str:
    lines = ""
    for share in (0, 0.5, 1):
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
        lines += f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
        lines += f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{top * share:,g}</text>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
        f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>{lines}{inside}</svg>'
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int | float) else escape(str(cell))


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
