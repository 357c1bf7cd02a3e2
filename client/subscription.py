"""What a consumer reads and how far it has come. Pure; changed on the event loop, read from the caller's thread."""

from collections.abc import Iterable

from ottla.wire.errors import ConfigError
from ottla.wire.names import TopicPartition

UNKNOWN = -1


class Assigned:
    """One partition being read."""

    __slots__ = (
        "buffered_bytes",
        "fetch_offset",
        "generation",
        "high_watermark",
        "not_before",
        "paused",
        "position",
        "where",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.position = UNKNOWN
        """The offset that the caller gets next."""
        self.fetch_offset = UNKNOWN
        """The offset that is fetched next: ahead of ``position`` by what is buffered."""
        self.generation = 0
        """Grows with every seek; what was fetched for an older one is thrown away."""
        self.high_watermark = UNKNOWN
        self.buffered_bytes = 0
        self.paused = False
        self.not_before = 0.0

    def seek(self, offset: int) -> None:
        self.generation += 1
        self.position = self.fetch_offset = offset
        self.buffered_bytes = 0


class Subscription:
    """The partitions that a consumer reads: those of its topics, or those it was told one by one."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.topics = list(dict.fromkeys(topics))
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.by_hand = False
        self._sought: dict[TopicPartition, int] = {}

    def assign(self, places: Iterable[TopicPartition]) -> list[Assigned]:
        """Read exactly these; partitions that stay keep their position. Gives back the new ones."""
        wanted = list(dict.fromkeys(places))
        new = [Assigned(where) for where in wanted if where not in self.assigned]
        kept = {where: state for where, state in self.assigned.items() if where in set(wanted)}
        for state in self.assigned.values():
            if state.where not in kept:
                state.generation += 1
        self.assigned = kept | {state.where: state for state in new}
        for state in new:
            if state.where in self._sought:
                state.seek(self._sought.pop(state.where))
        return new

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Go on at ``offset``; a partition that is not assigned yet will begin there."""
        if offset < 0:
            raise ConfigError(f"seek to offset {offset}; offsets begin at 0")
        state = self.assigned.get(where)
        if state is None:
            self._sought[where] = offset
        else:
            state.seek(offset)

    def state(self, where: TopicPartition) -> Assigned:
        state = self.assigned.get(where)
        if state is None:
            raise ConfigError(
                f"{where} is not assigned to this consumer; assigned are {sorted(map(str, self.assigned))}"
            )
        return state
