"""Everything in a history that must not be: Jepsen's list for Kafka, Redpanda's real-time rule, and a few of our own. Pure.

Each rule is a function from a history to violations, in a file of its own kind; ``RULES`` has them all.
"""

from collections import defaultdict
from collections.abc import Sequence

from ottla.chaos.checker.contents import changed
from ottla.chaos.checker.groups import committed_back, committed_unread, group_missed, owned_twice
from ottla.chaos.checker.order import key_moved, stored_in_the_past, stored_out_of_order
from ottla.chaos.checker.polls import disagrees_with_the_log, read_out_of_order, unseen
from ottla.chaos.checker.progress import failed_without_need, never_ended, not_healed, proves_nothing, stood_still
from ottla.chaos.checker.receipts import epochs_go_back_in_the_log, receipts_that_lie
from ottla.chaos.checker.replicas import replicas_differ
from ottla.chaos.checker.sessions import not_read_to_the_end, sessions_that_do_not_go_on
from ottla.chaos.checker.violation import Rule, Violation
from ottla.chaos.checker.writes import acknowledged_twice, lost_and_moved, read_twice_or_never_sent
from ottla.chaos.history import Event, History

EXAMPLES_MAX = 5
AROUND_S = 2.0
"""Events so shortly before and after a guilty record are told with it."""

RULES: tuple[Rule, ...] = (
    lost_and_moved,
    read_twice_or_never_sent,
    changed,
    acknowledged_twice,
    stored_out_of_order,
    stored_in_the_past,
    key_moved,
    read_out_of_order,
    sessions_that_do_not_go_on,
    not_read_to_the_end,
    disagrees_with_the_log,
    unseen,
    owned_twice,
    committed_back,
    committed_unread,
    group_missed,
    replicas_differ,
    epochs_go_back_in_the_log,
    receipts_that_lie,
    stood_still,
    never_ended,
    failed_without_need,
    not_healed,
    proves_nothing,
)


def check(history: History, rules: Sequence[Rule] = RULES) -> list[Violation]:
    """All violations, in the order of the rules."""
    return [violation for rule in rules for violation in rule(history)]


def report(violations: Sequence[Violation]) -> str:
    """How many of each kind, and some of them."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for violation in violations:
        kinds[violation.kind].append(violation.what)
    lines = []
    for kind, found in sorted(kinds.items()):
        lines.append(f"{kind}: {len(found)}")
        lines += [f"  {what}" for what in found[:EXAMPLES_MAX]]
    return "\n".join(lines)


def events_around(violation: Violation, events: Sequence[Event]) -> list[Event]:
    """What happened while the guilty record was under way, and shortly before and after."""
    if violation.began is None:
        return []
    first = violation.began - AROUND_S
    last = (violation.ended if violation.ended is not None else violation.began) + AROUND_S
    return [
        event
        for event in events
        if event.at <= last and (event.until or event.at) >= first and _concerns(event, violation.partition)
    ]


def _concerns(event: Event, partition: int | None) -> bool:
    """Who leads other partitions does not matter."""
    return partition is None or event.kind not in ("leader", "isr") or event.targets[:1] == (str(partition),)


__all__ = ["RULES", "Violation", "check", "events_around", "report"]
