"""To which leaders a producer can send now, and what has to be done first where it cannot."""

from collections.abc import Callable
from typing import Protocol

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.producing.sending.in_flight_requests import InFlightRequests
from ottla.net.channel import Channel
from ottla.wire.messages import ACKS_NONE
from ottla.wire.names import TopicPartition


class Background(Protocol):
    """What takes a while. Each may be asked for again while it is under way."""

    def refresh_metadata(self) -> None: ...
    def init_producer_id(self) -> None: ...
    def connect(self, leader: int) -> None: ...
    def drain(self, channel: Channel, drained: Callable[[], None]) -> None: ...
    def disconnect(self, channel: Channel) -> None: ...


class Leaders:
    """The leaders' connections, and how much is in flight on each."""

    def __init__(
        self, config: ProducerConfig, cluster: Cluster, in_flight: InFlightRequests, background: Background
    ) -> None:
        self._cluster = cluster
        self._in_flight = in_flight
        self._background = background
        self._requests_max = config.max_in_flight_requests_per_connection
        self._unanswered = config.required_acks == ACKS_NONE
        self._last_channels: dict[int, Channel] = {}
        """The connections to leaders as they were seen last."""
        self._unconfirmed: set[int] = set()
        """The leaders whose connection broke since it was told who leads."""

    def with_room(self, where: TopicPartition) -> int | None:
        """The leader of a partition if its connection stands and can take one more request."""
        leader = self._cluster.leader(where)
        if leader is None:
            self._background.refresh_metadata()
            return None
        if self._in_flight.requests[leader] >= self._requests_max:
            return None
        channel = self._cluster.open_channel(leader)
        if channel is not self._last_channels.get(leader):
            self._channel_changed(leader, channel)
        if leader in self._unconfirmed:
            self._background.refresh_metadata()
            if self._unanswered:
                return None
        if channel is None:
            self._background.connect(leader)
            return None
        return leader

    def confirmed(self) -> None:
        """It was told who leads."""
        self._unconfirmed.clear()

    def _channel_changed(self, leader: int, channel: Channel | None) -> None:
        """A connection is new, or it broke: perhaps because another broker leads, and with acks=0 nothing else will tell."""
        if self._last_channels.pop(leader, None) is not None:
            self._unconfirmed.add(leader)
        if channel is not None:
            self._last_channels[leader] = channel
