"""A produce request on its way: to whom, with which batches, and how long it is waited for."""

import asyncio

from ottla.client.batches import ProducerBatch
from ottla.net.channel import Channel


class SentRequest:
    """A request that was sent and not answered yet."""

    __slots__ = ("batches", "channel", "leader", "patience", "until")

    def __init__(self, leader: int, channel: Channel, batches: list[ProducerBatch], until: float) -> None:
        self.leader = leader
        self.channel = channel
        self.batches = batches
        self.until = until
        self.patience: asyncio.TimerHandle | None = None
