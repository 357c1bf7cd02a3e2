"""Whether a broker that looks dead is fenced at once or left to its ZooKeeper session. Pure: time is an argument.

Fencing is always safe; doing it wrongly costs availability. A refused connection says that a process is gone, but when more
than half of the brokers look dead at once, the controller's own network is as likely to be broken: then it fences at once only
what another broker confirms, and without anybody to ask, one refused broker in half a second. A registration that was never
reached may only name an address where nobody listens: a refusal there counts, but not more often than silence does.

A broker that is silent (packets to it or from it are lost, or it is paused) is fenced if more than half of all registered
brokers, the controller included, do not reach it. It registers again through its ZooKeeper session although it is still cut
off: it counts as away, and is not treated as live, until the controller reaches it.
"""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from ottla.broker.controller.decisions.fence_budget import FenceBudget

SUSPECT_S = 1.0
"""A link that cannot reach its broker says so again at least twice in this time."""
WAVE_S = 5.0
"""Fences that are so close together belong to one event."""
PACE_S = 0.5


class Verdict(Enum):
    FENCE = "fence"
    WAIT = "not yet"
    """The link reports again: decide then."""
    LEAVE = "leave to its session"


class Witnesses(NamedTuple):
    """How many other brokers reach the suspect, and how many do not; who cannot be asked is in neither."""

    alive: int = 0
    dead: int = 0


class FenceGuard:
    """One term's memory of who looked dead when."""

    def __init__(self) -> None:
        self._budget = FenceBudget()
        self._suspected: dict[int, float] = {}
        self._fenced: dict[int, float] = {}
        self._away: set[int] = set()
        self._last_fence_at = -PACE_S

    def suspected(self, broker: int, now: float) -> None:
        """A link lost its broker and does not find it."""
        self._suspected[broker] = now

    def reached(self, broker: int) -> bool:
        """A link has found its broker: whatever happened to it before is over. Returns whether it was away until now."""
        self._suspected.pop(broker, None)
        self._fenced.pop(broker, None)
        was_away = broker in self._away
        self._away.discard(broker)
        return was_away

    def is_away(self, broker: int) -> bool:
        """Whether a broker was fenced because it was silent, and has not been reached since."""
        return broker in self._away

    def fenced_as_silent(self, broker: int, now: float) -> None:
        """A broker was fenced because more than half of all brokers did not reach it."""
        self._suspected.pop(broker, None)
        self._fenced[broker] = self._last_fence_at = now
        self._away.add(broker)

    def needs_witnesses(self, *, refused: bool, registered: Collection[int], now: float) -> bool:
        """Whether the verdict depends on what other brokers say."""
        return self._many_look_dead(registered, now) == refused

    def verdict(
        self,
        broker: int,
        witnesses: Witnesses,
        *,
        refused: bool,
        reached: bool,
        registered: Collection[int],
        now: float,
    ) -> Verdict:
        """What to do about a suspect; one that is to be fenced is counted as such.

        ``reached`` says whether this life of it ever was; ``registered`` includes ourselves.
        """
        verdict = self._decide(broker, witnesses, refused, reached, registered, now)
        if verdict is Verdict.FENCE and not refused:
            self.fenced_as_silent(broker, now)
        elif verdict is Verdict.FENCE:
            self._suspected.pop(broker, None)
            self._fenced[broker] = self._last_fence_at = now
        return verdict

    def _decide(
        self, broker: int, witnesses: Witnesses, refused: bool, reached: bool, registered: Collection[int], now: float
    ) -> Verdict:
        many = self._many_look_dead(registered, now)
        two_brokers = len(registered) == 2  # no witness can exist; electing is safe all the same
        if not refused and not two_brokers:
            # The controller is one of those that do not reach it.
            confirmed = not many and 2 * (1 + witnesses.dead) > len(registered)
            return self._if_not_too_often(broker, now) if confirmed else Verdict.LEAVE
        if witnesses.alive and many:
            return Verdict.LEAVE
        alone = two_brokers and not self._fenced_lately(now)
        if refused and (not many or witnesses.dead or alone):
            return Verdict.FENCE if reached else self._if_not_too_often(broker, now)
        if many and now - self._last_fence_at < PACE_S:
            return Verdict.WAIT
        return self._if_not_too_often(broker, now)

    def _if_not_too_often(self, broker: int, now: float) -> Verdict:
        return Verdict.FENCE if self._budget.allow(broker, now) else Verdict.LEAVE

    def _many_look_dead(self, registered: Collection[int], now: float) -> bool:
        """Whether those who look dead, or were fenced a moment ago, are so many that the error may be with us."""
        fenced = self._fenced_lately(now)
        suspects = {i for i, at in self._suspected.items() if now - at < SUSPECT_S and i in registered}
        return len(suspects | fenced) > (len(fenced.union(registered)) - 1) // 2

    def _fenced_lately(self, now: float) -> set[int]:
        """And not reached since; that some of them are registered again does not say that they live where they say."""
        return {i for i, at in self._fenced.items() if now - at < WAVE_S}
