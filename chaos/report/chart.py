"""The timeline of a run as one SVG: throughput, latencies, what each node suffered, who led and who was in sync. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from ottla.chaos.history import Event
from ottla.chaos.report.series import Point

WIDTH = 1120
LEFT, RIGHT = 92, 18
PLOT_HEIGHT = 120
LANE_HEIGHT = 20
LANE_GAP = 5
TITLE_HEIGHT = 30
TICKS = 12

_GROUPS = {
    "kill": "death", "kill-ahead": "death", "stop": "death", "restart": "death", "pause": "sleep",
    "cut": "net", "cut-from": "net", "cut-to": "net", "isolate": "net", "lose-answers": "net",
    "slow": "slow", "disk-full": "disk", "clock": "disk",
}  # fmt: skip


class Chart:
    """Draws from the top down; every part shares the axis of time."""

    def __init__(self, ended_s: float) -> None:
        self._ended_s = max(ended_s, 1.0)
        self._parts: list[str] = []
        self._y = 8.0

    def x(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(at_s / self._ended_s, 0.0), 1.0)

    def svg(self) -> str:
        self._axis()
        body = "\n".join(self._parts)
        return (
            f'<svg viewBox="0 0 {WIDTH} {self._y:.0f}" role="img" '
            f'aria-label="Timeline of the run" xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'
        )

    # --- parts -----------------------------------------------------------------------------------------------------------

    def throughput(self, points: Sequence[Point], faults: Sequence[tuple[float, float, Event]]) -> None:
        top = _nice(max((point.rate for point in points), default=1.0))
        y = self._plot(
            "acknowledged, records/s",
            faults,
            [(share * top, _short(share * top)) for share in (0, 0.5, 1)],
            _linear(top),
        )
        path = " ".join(f"L{self.x(p.at_s):.1f} {y(p.rate):.1f}" for p in points)
        if points:
            first, last = self.x(points[0].at_s), self.x(points[-1].at_s)
            self._add(f'<path class="area" d="M{first:.1f} {y(0):.1f} {path} L{last:.1f} {y(0):.1f} Z"/>')
            self._add(f'<path class="line rate" d="M{path[1:]}"/>')

    def latency(self, points: Sequence[Point], faults: Sequence[tuple[float, float, Event]]) -> None:
        highest = max((point.max_ms or 1.0 for point in points), default=1.0)
        top = 10.0 ** math.ceil(math.log10(max(highest, 10.0)))
        ticks = [(10.0**power, _duration(10.0**power)) for power in range(round(math.log10(top)) + 1)]
        y = self._plot("latency (log): p50, p99, longest", faults, ticks, _logarithmic(top))
        for name, value in (("max", _max), ("p99", _p99), ("p50", _p50)):
            for run in _runs(points, value):
                path = " ".join(f"L{self.x(at):.1f} {y(ms):.1f}" for at, ms in run)
                if len(run) == 1:
                    path += " l1 0"
                self._add(f'<path class="line {name}" d="M{path[1:]}"/>')

    def faults(self, nodes: Sequence[str], faults: Sequence[tuple[float, float, Event]]) -> None:
        self._title("faults, by node")
        for node in nodes:
            self._lane(node)
            for begin, end, event in faults:
                if node in event.targets:
                    kind = event.what.split()[0]
                    tip = f"{event.what}: {begin:.1f} s to {end:.1f} s"
                    self._block(begin, end, f"fault {_GROUPS.get(kind, 'net')}", tip, kind)
            self._y += LANE_HEIGHT + LANE_GAP

    def leaders(self, partitions: int, events: Iterable[tuple[float, Event]]) -> None:
        """A lane for each partition: the colour is the leader, the text the leader and who is in sync."""
        self._title("leader of each partition, and its in-sync replicas")
        known = [(at, event) for at, event in events if event.kind in ("leader", "isr")]
        for partition in range(partitions):
            self._lane(f"partition {partition}")
            for begin, end, leader, isr in _reigns(partition, known, self._ended_s):
                who = f"broker{leader}" if leader >= 0 else "nobody"
                tip = f"{who} leads, in sync: {isr or 'nobody'}; {begin:.1f} s to {end:.1f} s"
                text = f"{leader} [{isr}]" if leader >= 0 else "-"
                self._block(begin, end, f"b{leader % 8} reign" if leader >= 0 else "nobody reign", tip, text)
            self._y += LANE_HEIGHT + LANE_GAP

    def marks(self, times: Sequence[float], what: str) -> None:
        """Where violations are, over everything that was drawn."""
        for at in times:
            tip = f"<title>{escape(what)} at {at:.1f} s</title>"
            self._add(
                f'<line class="mark" x1="{self.x(at):.1f}" x2="{self.x(at):.1f}" y1="8" y2="{self._y:.0f}">{tip}</line>'
            )

    # --- pieces ----------------------------------------------------------------------------------------------------------

    def _plot(
        self,
        title: str,
        faults: Sequence[tuple[float, float, Event]],
        ticks: Sequence[tuple[float, str]],
        scale: Callable[[float], float],
    ) -> Callable[[float], float]:
        self._title(title)
        top, self._y = self._y, self._y + PLOT_HEIGHT

        def y(value: float) -> float:
            return top + PLOT_HEIGHT * (1 - scale(value))

        for begin, end, event in faults:
            x, width = self.x(begin), max(1.0, self.x(end) - self.x(begin))
            group = _GROUPS.get(event.what.split()[0], "net")
            tip = f"<title>{escape(event.what)}</title>"
            self._add(
                f'<rect class="band {group}" x="{x:.1f}" y="{top:.0f}" width="{width:.1f}" height="{PLOT_HEIGHT}">{tip}</rect>'
            )
        for value, label in ticks:
            self._add(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
            self._add(f'<text class="tick" x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>')
        return y

    def _title(self, text: str) -> None:
        self._y += TITLE_HEIGHT
        self._add(f'<text class="title" x="{LEFT}" y="{self._y - 9:.0f}">{escape(text)}</text>')

    def _lane(self, name: str) -> None:
        middle = self._y + LANE_HEIGHT / 2 + 4
        self._add(f'<text class="tick" x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        self._add(
            f'<rect class="lane" x="{LEFT}" y="{self._y:.0f}" width="{WIDTH - LEFT - RIGHT}" height="{LANE_HEIGHT}"/>'
        )

    def _block(self, begin: float, end: float, classes: str, tip: str, text: str) -> None:
        x, width = self.x(begin), max(2.0, self.x(end) - self.x(begin))
        self._add(
            f'<rect class="{classes}" x="{x:.1f}" y="{self._y:.0f}" width="{width:.1f}" height="{LANE_HEIGHT}" rx="3">'
            f"<title>{escape(tip)}</title></rect>"
        )
        if width > 7 * len(text) + 4:
            middle = self._y + LANE_HEIGHT / 2 + 4
            self._add(f'<text class="inside" x="{x + 5:.1f}" y="{middle:.0f}">{escape(text)}</text>')

    def _axis(self) -> None:
        self._y += 18
        step = _nice(self._ended_s / TICKS)
        at = 0.0
        while at <= self._ended_s:
            self._add(f'<text class="tick" x="{self.x(at):.1f}" y="{self._y:.0f}" text-anchor="middle">{at:g} s</text>')
            at += step
        self._y += 10

    def _add(self, part: str) -> None:
        self._parts.append(part)


def _reigns(
    partition: int, events: Sequence[tuple[float, Event]], ended_s: float
) -> list[tuple[float, float, int, str]]:
    """From when to when who led, and with whom in sync."""
    found: list[tuple[float, float, int, str]] = []
    since, leader, isr = 0.0, -1, ""
    for at, event in events:
        if event.targets[0] != str(partition):
            continue
        if at > since + 0.01 and (leader >= 0 or isr or found):
            found.append((since, at, leader, isr))
            since = at
        if event.kind == "leader":
            leader = int(event.targets[1])
        else:
            isr = event.targets[1]
    found.append((since, ended_s, leader, isr))
    return found


def _runs(points: Sequence[Point], value: Callable[[Point], float | None]) -> list[list[tuple[float, float]]]:
    """Stretches without a hole: where nothing was sent there is no latency."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        number = value(point)
        if number is not None:
            runs[-1].append((point.at_s, number))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _p50(point: Point) -> float | None:
    return point.p50_ms


def _p99(point: Point) -> float | None:
    return point.p99_ms


def _max(point: Point) -> float | None:
    return point.max_ms


def _linear(top: float) -> Callable[[float], float]:
    return lambda value: value / top


def _logarithmic(top: float) -> Callable[[float], float]:
    return lambda value: math.log10(max(value, 1.0)) / math.log10(top)


def _nice(number: float) -> float:
    """The next round number."""
    if number <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(power * step for step in (1, 2, 3, 5, 10) if power * step >= number)


def _short(number: float) -> str:
    return f"{number / 1000:g}k" if number >= 10_000 else f"{number:g}"


def _duration(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"
