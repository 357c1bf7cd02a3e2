"""A produce request on its way: to whom, with which batches, and how long it is waited for. Pure."""

from ottla.client.batches import ProducerBatch
from ottla.net.channel import Channel

LOOK_S = 0.3
"""After so long without an answer, see whether another broker leads by now: a paused one never says so itself."""


class SentRequest:
    """A request that was sent and not answered yet."""

    __slots__ = ("batches", "channel", "leader", "look_at", "until")

    def __init__(
        self, leader: int, channel: Channel, batches: list[ProducerBatch], now: float, timeout_s: float
    ) -> None:
        self.leader = leader
        self.channel = channel
        self.batches = batches
        self.until = now + timeout_s
        self.look_at = 0.0
        self.look_again(now)

    def look_again(self, now: float) -> None:
        """Set when to see whether the answer is overdue: soon, and when a batch's delivery time or the request's is over."""
        look_at = min(now + LOOK_S, self.until)
        for batch in self.batches:
            if not batch.done and batch.deadline < look_at:
                look_at = batch.deadline
        self.look_at = look_at
