"""A run as plain values: what the json has, and what a terminal tells. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.chaos.checker import Violation, events_around, report
from ottla.chaos.history import Event, Outcome
from ottla.chaos.nemesis import describe
from ottla.chaos.report.series import percentile, series
from ottla.chaos.run import Outcome as RunOutcome

DETAILS_MAX = 200
"""Of each kind: a cluster that has lost everything need not tell of each record."""


def summary(outcome: RunOutcome) -> dict[str, Any]:
    """Everything about a run but the records themselves; times in seconds from its beginning."""
    history, began = outcome.history, outcome.began
    latencies = sorted((s.ended - s.began) * 1000 for s in history.sends if s.outcome is Outcome.OK)
    return {
        "scenario": outcome.scenario,
        "target": outcome.target,
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "topic": outcome.topic,
        "passed": outcome.passed,
        "violations": len(outcome.violations),
        "violation_kinds": dict(Counter(violation.kind for violation in outcome.violations)),
        "sends": dict(Counter(send.outcome.value for send in history.sends)),
        "send_errors": dict(Counter(send.error for send in history.sends if send.error)),
        "receipts": sum(send.receipt is not None for send in history.sends),
        "polled": sum(len(poll.reads) for poll in history.polls),
        "stored": sum(map(len, history.reads.values())),
        "replicas_compared": len(history.replicas),
        "expectations": len(history.expectations),
        "latency_ms": {
            "p50": _rounded(percentile(latencies, 0.5)),
            "p99": _rounded(percentile(latencies, 0.99)),
            "max": _rounded(latencies[-1] if latencies else None),
        },
        "faults": [_event(event, began) for event in history.events if event.kind == "fault"],
        "schedule": describe(outcome.steps),
        "scheduled": len(outcome.steps),
        "took_effect": outcome.begun,
        "skipped": outcome.skipped,
        "not_offered": {str(kind): why for kind, why in outcome.missing.items()},
        "details": [
            {
                "kind": violation.kind,
                "what": violation.what,
                "partition": violation.partition,
                "offset": violation.offset,
                "sent_s": _since(violation.began, began),
                "ended_s": _since(violation.ended, began),
                "around": [_event(event, began) for event in events_around(violation, history.events)],
            }
            for violation in _some_of_each(outcome.violations)
        ],
        "events": [_event(event, began) for event in history.events],
        "series": [point._asdict() for point in series(history.sends, began, ended(outcome))],
    }


def ended(outcome: RunOutcome) -> float:
    """When the last thing happened that the history knows of."""
    times = [send.ended for send in outcome.history.sends if send.ended != float("inf")]
    times += [event.until or event.at for event in outcome.history.events]
    return max(times, default=outcome.began)


def told(outcome: RunOutcome) -> str:
    """A few lines for a terminal."""
    found = summary(outcome)
    sends, latency = found["sends"], found["latency_ms"]
    heard = (
        f"{sends.get('ok', 0)} records acknowledged, {sends.get('unknown', 0)} unknown, {sends.get('failed', 0)} failed"
    )
    compared = f"{found['polled']} polled, {found['stored']} stored, {found['replicas_compared']} replicas compared"
    effect = f"{found['took_effect']} of {found['scheduled']} faults took effect"
    lines = [
        f"{found['scenario']} on {found['target']}, seed {found['seed']}: {effect}",
        f"{heard}, {compared}",
        f"latency p50 {latency['p50']} ms, p99 {latency['p99']} ms, longest {latency['max']} ms",
    ]
    lines += [f"left out: {why}" for why in found["skipped"]]
    lines += [f"not offered by {found['target']}: {kind} ({why})" for kind, why in found["not_offered"].items()]
    lines.append(verdict(outcome))
    if not outcome.passed:
        lines.append(report(outcome.violations))
    return "\n".join(lines)


def verdict(outcome: RunOutcome) -> str:
    count = len(outcome.violations)
    return f"{count} violation{'' if count == 1 else 's'}"


def _some_of_each(violations: Iterable[Violation]) -> Iterator[Violation]:
    told_of: Counter[str] = Counter()
    for violation in violations:
        told_of[violation.kind] += 1
        if told_of[violation.kind] <= DETAILS_MAX:
            yield violation


def _event(event: Event, began: float) -> dict[str, Any]:
    found: dict[str, Any] = {"at_s": _since(event.at, began), "kind": event.kind, "what": event.what}
    if event.until is not None:
        found["until_s"] = _since(event.until, began)
    return found


def _since(at: float | None, began: float) -> float | None:
    return None if at is None else round(at - began, 3)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 2)
