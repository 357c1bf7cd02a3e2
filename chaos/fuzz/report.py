"""A run of the fuzzer as plain values, and as a terminal tells it. Pure."""

from dataclasses import dataclass
from typing import Any, Final

from ottla.chaos.fuzz.healthy import Heard
from ottla.chaos.fuzz.stored import Stored
from ottla.chaos.fuzz.tally import Tally
from ottla.chaos.fuzz.watch import Look
from ottla.chaos.report.series import percentile

FUZZED: Final = "fuzzed"
CALM: Final = "calm"


@dataclass
class Outcome:
    """All that a run found."""

    seed: int
    seconds: float
    windows: int
    tally: Tally
    heard: Heard
    before: list[Look]
    after: list[Look]
    largest_mb: list[float]
    """The most that each broker held at the end of a window."""
    stored: dict[str, Stored]
    strange_topics: int
    violations: list[str]
    busy_ms: dict[str, list[float]]
    """The longest CPU time for which each broker's event loop kept everybody waiting, by phase."""

    @property
    def passed(self) -> bool:
        return not self.violations


def latencies(heard: Heard) -> dict[str, dict[str, float]]:
    """p50, p99 and the longest of each phase, in ms."""
    found = {}
    for phase in (FUZZED, CALM):
        ordered = sorted(heard.latencies_ms.get(phase, ()))
        if ordered:
            found[phase] = {
                "records": float(len(ordered)),
                "p50": round(percentile(ordered, 0.5) or 0, 2),
                "p99": round(percentile(ordered, 0.99) or 0, 2),
                "max": round(ordered[-1], 2),
            }
    return found


def summary(outcome: Outcome) -> dict[str, Any]:
    tally = outcome.tally
    return {
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "windows": outcome.windows,
        "passed": outcome.passed,
        "attacks": sum(tally.attacks.values()),
        "frames": tally.frames,
        "attacks_by_kind": dict(tally.attacks.most_common()),
        "answers_by_kind": dict(tally.answers.most_common()),
        "stored": {topic: found._asdict() for topic, found in outcome.stored.items()},
        "topics_made_by_mutants": outcome.strange_topics,
        "healthy_ms": latencies(outcome.heard),
        "healthy_acked": outcome.heard.acked,
        "memory_mb": {
            "before": [round(look.memory_mb) for look in outcome.before],
            "largest": [round(one) for one in outcome.largest_mb],
            "after": [round(look.memory_mb) for look in outcome.after],
        },
        "descriptors": {
            "before": [look.descriptors for look in outcome.before],
            "after": [look.descriptors for look in outcome.after],
        },
        "busy_ms": {phase: [round(one, 1) for one in each] for phase, each in outcome.busy_ms.items()},
        "violations": outcome.violations,
    }


def told(outcome: Outcome) -> str:
    """For a terminal."""
    found = summary(outcome)
    lines = [f"seed {found['seed']}: {found['attacks']} attacks, {found['frames']} frames in {found['seconds']:g} s"]
    for title, counts in (("attacks", found["attacks_by_kind"]), ("what came of them", found["answers_by_kind"])):
        lines += [f"{title}:", *(f"  {count:>8}  {kind}" for kind, count in counts.items())]
    for topic, one in outcome.stored.items():
        lines.append(
            f"{topic}: {one.batches} batches stored, {one.records} records; the records of {one.unread} batches do not read"
        )
    for phase, numbers in found["healthy_ms"].items():
        lines.append(f"healthy client, {phase}: " + ", ".join(f"{name} {number:g}" for name, number in numbers.items()))
    for name in ("memory_mb", "descriptors", "busy_ms"):
        lines.append(f"{name}: " + ", ".join(f"{when} {numbers}" for when, numbers in found[name].items()))
    lines.append(f"{len(outcome.violations)} violation{'' if len(outcome.violations) == 1 else 's'}")
    return "\n".join([*lines, *outcome.violations])
