"""Rows of a table of measurements: printed as they come, and kept for the json."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla import compiled


@dataclass
class Row:
    """One measurement. ``goal`` is what it should reach; ``others`` what others reached on such a machine."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    goal: str = ""
    met: bool | None = None
    others: str = ""


def against(name: str, value: float, unit: str, limit: float, others: str) -> Row:
    """A speed that should be at least half of what the bare machine does."""
    return Row(name, value, unit, limit=limit, goal=">= half of limit", met=value >= limit / 2, others=others)


def at_least(name: str, value: float, least: float, others: str = "") -> Row:
    return Row(name, value, "records/s", goal=f">= {least:,.0f}", met=value >= least, others=others)


def at_most(name: str, value: float, unit: str, most: float, others: str = "", limit: float | None = None) -> Row:
    return Row(name, value, unit, limit=limit, goal=f"<= {most:g}", met=value <= most, others=others)


def show(rows: list[Row]) -> list[Row]:
    for row in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[row.met]
        limit = f"limit {_number(row.limit)}" if row.limit is not None else ""
        print(
            f"{row.name:<50}{_number(row.value):>13} {row.unit:<10}{limit:<15}{row.goal:<18}{verdict:<8}{row.others}",
            flush=True,
        )
    return rows


def save(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
                "compiled": compiled.is_active(),
                "rows": [asdict(row) for row in rows],
            },
            indent=2,
        )
    )
    print(f"\nwritten to {path}")


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"
