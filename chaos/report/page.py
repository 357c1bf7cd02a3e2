"""A run as one HTML page: no script, no font, no picture from anywhere else; light and dark as the reader has it."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ottla.chaos.report.chart import Chart
from ottla.chaos.report.series import series
from ottla.chaos.report.style import STYLE
from ottla.chaos.report.summary import ended, summary, verdict
from ottla.chaos.run import Outcome

MARKS_MAX = 200
EXAMPLES_MAX = 20
EVENTS_MAX = 8

_LINES = (("p50", "p50"), ("p99", "p99"), ("max", "longest"))


def page(outcome: Outcome) -> str:
    found = summary(outcome)
    name = f"{outcome.scenario} on {outcome.target}, seed {outcome.seed}"
    parts = [
        f'<h1>{escape(outcome.scenario)} <span class="{"good" if outcome.passed else "bad"}">{verdict(outcome)}</span></h1>',
        _tiles(outcome, found),
        f"<figure>{_chart(outcome)}{_legend(outcome)}</figure>",
        _violations(found["details"], found["violation_kinds"]),
        _faults(found["faults"]),
        _notes(found),
        f"<h2>Again</h2><pre>{escape(_command(outcome))}</pre>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Chaos: {escape(name)}: {verdict(outcome)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body><main>\n" + "\n".join(parts) + "\n</main></body></html>\n"
    )


def _chart(outcome: Outcome) -> str:
    history, began = outcome.history, outcome.began
    over_s = ended(outcome) - began
    faults = [(e.at - began, (e.until or e.at) - began, e) for e in history.events if e.kind == "fault"]
    points = series(history.sends, began, ended(outcome))
    chart = Chart(over_s)
    chart.throughput(points, faults)
    chart.latency(points, faults)
    nodes = sorted({node for _, _, event in faults for node in event.targets})
    if nodes:
        chart.faults(nodes, faults)
    chart.leaders(outcome.partitions, [(event.at - began, event) for event in history.events])
    times = sorted({round(v.began - began, 1) for v in outcome.violations if v.began is not None})
    chart.marks(times[:MARKS_MAX], "violation")
    return chart.svg()


def _tiles(outcome: Outcome, found: dict[str, Any]) -> str:
    sends, latency = found["sends"], found["latency_ms"]
    tiles = [
        ("target", outcome.target),
        ("seed", outcome.seed),
        ("faults", len(found["faults"])),
        ("acknowledged", f"{sends.get('ok', 0):,}"),
        ("unknown", f"{sends.get('unknown', 0):,}"),
        ("refused", f"{sends.get('failed', 0):,}"),
        ("polled", f"{found['polled']:,}"),
        ("stored", f"{found['stored']:,}"),
        ("replicas compared", found["replicas_compared"]),
        ("latency p50", _duration(latency["p50"])),
        ("latency p99", _duration(latency["p99"])),
        ("longest", _duration(latency["max"])),
    ]
    cells = "".join(f"<div><b>{escape(str(value))}</b><span>{escape(name)}</span></div>" for name, value in tiles)
    return f'<section class="tiles">{cells}</section>'


def _legend(outcome: Outcome) -> str:
    leaders = sorted(
        {int(e.targets[1]) for e in outcome.history.events if e.kind == "leader" and int(e.targets[1]) >= 0}
    )
    brokers = "".join(f'<span class="key b{leader % 8}">broker{leader}</span>' for leader in leaders)
    kinds = (("death", "killed, stopped"), ("sleep", "paused"), ("net", "cut off"), ("slow", "slow"), ("disk", "disk"))
    faults = "".join(f'<span class="key {group}">{text}</span>' for group, text in kinds)
    lines = "".join(f'<span class="key {name}">{text}</span>' for name, text in _LINES)
    return (
        f"<figcaption>Latency: {lines} Leaders: {brokers} Faults: {faults} Point at anything to read more.</figcaption>"
    )


def _violations(details: Sequence[dict[str, Any]], kinds: dict[str, int]) -> str:
    """Some of each kind, so that a thousand of one do not hide another."""
    if not details:
        return "<h2>Violations</h2><p>None.</p>"
    parts = ["<h2>Violations</h2>"]
    for kind, count in sorted(kinds.items()):
        rows = [
            (one["what"], _time(one["sent_s"], one["ended_s"]), _around(one["around"]))
            for one in details
            if one["kind"] == kind
        ]
        more = f", {EXAMPLES_MAX} of them here; run.json has more" if count > EXAMPLES_MAX else ""
        parts.append(f"<h3>{escape(kind)}: {count}{more}</h3>")
        parts.append(_table(("what", "sent, s", "what happened around it"), rows[:EXAMPLES_MAX]))
    return "".join(parts)


def _faults(faults: Sequence[dict[str, Any]]) -> str:
    rows = [(one["what"], f"{one['at_s']:.1f}", f"{one['until_s'] - one['at_s']:.1f}") for one in faults]
    return f"<h2>Faults</h2>{_table(('what', 'at, s', 'lasted, s'), rows)}" if rows else ""


def _notes(found: dict[str, Any]) -> str:
    notes = [f"Not offered by this target: {kind} ({why})." for kind, why in found["not_offered"].items()]
    notes += [f"Skipped: {what}." for what in found["skipped"]]
    notes += [f"{count} sends ended with {error}." for error, count in found["send_errors"].items()]
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<h2>Notes</h2><ul>{items}</ul>" if items else ""


def _around(events: Sequence[dict[str, Any]]) -> str:
    told = [f"{_time(event['at_s'], event.get('until_s'))} s {event['what']}" for event in events[:EVENTS_MAX]]
    if len(events) > EVENTS_MAX:
        told.append(f"and {len(events) - EVENTS_MAX} more")
    return "\n".join(told)


def _duration(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:.1f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def _time(begin: float | None, end: float | None) -> str:
    if begin is None:
        return ""
    return f"{begin:.2f}" if end is None else f"{begin:.2f} to {end:.2f}"


def _table(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _command(outcome: Outcome) -> str:
    return (
        f"ottla chaos run --scenario {outcome.scenario} --seconds {outcome.seconds:g} "
        f"--seed {outcome.seed} --target {outcome.target}"
    )
