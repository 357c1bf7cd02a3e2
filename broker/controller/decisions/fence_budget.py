"""How often a broker that merely cannot be reached may be fenced at once. Pure: time is an argument.

Fencing is always safe, but a broker behind a bad network would lose its leaders again and again. After three times in
five minutes it is left to its ZooKeeper session. A process that is gone for sure (it was connected, and now its port
refuses) is not counted.
"""

from collections import defaultdict, deque

FENCES = 3
PERIOD_S = 300.0


class FenceBudget:
    def __init__(self) -> None:
        self._spent: dict[int, deque[float]] = defaultdict(deque)

    def allow(self, broker_id: int, now: float) -> bool:
        """Whether this broker may be fenced now; counts it if so."""
        spent = self._spent[broker_id]
        while spent and now - spent[0] > PERIOD_S:
            spent.popleft()
        if len(spent) >= FENCES:
            return False
        spent.append(now)
        return True
