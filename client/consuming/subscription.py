"""What a consumer reads and how far it has come. Pure; changed on the event loop, read from the caller's thread."""

from collections.abc import Iterable, Iterator, Mapping

from ottla.wire.errors import ConfigError
from ottla.wire.names import TopicPartition, check_topic_name

UNKNOWN = -1


class Assigned:
    """One partition being read."""

    __slots__ = (
        "fetch_offset", "floor", "from_beginning", "not_before", "paused", "position", "position_version", "start",
        "topic_id", "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.position = UNKNOWN
        """The offset that the caller gets next, as of the last batch boundary or poll."""
        self.fetch_offset = UNKNOWN
        """The offset that is fetched next: ahead of ``position`` by what is buffered. UNKNOWN until reading can begin."""
        self.start = UNKNOWN
        """Where reading began, as of this version of the position."""
        self.floor = 0
        """Up to where the caller has read since it last chose where to read: nothing before it is given again."""
        self.position_version = 0
        """Grows whenever reading goes on elsewhere; what was fetched for an older one is thrown away."""
        self.topic_id = ""
        """The topic that the position belongs to, once it is known: another one may get the same name."""
        self.from_beginning = False
        """Whether all of its records are new to this consumer, so that none may be skipped."""
        self.paused = False
        self.not_before = 0.0

    @property
    def has_read(self) -> bool:
        """Whether records were read since the caller last chose where to read."""
        return self.floor > 0 or self.fetch_offset > self.start

    def seek(self, offset: int) -> None:
        """The caller chose where to read: the one way back."""
        self.floor = 0
        self._jump(offset)

    def forget_ahead(self) -> None:
        """Throw away what was fetched and not given yet; it will be fetched again."""
        if self.fetch_offset != UNKNOWN:
            if self.position > self.start:
                self.floor = max(self.floor, self.position)
            self._jump(self.position)

    def lose_position(self) -> None:
        """The log does not have the offset any more: ``begin`` says where to go on. All that was fetched is given."""
        if self.has_read:
            self.floor = max(self.floor, self.fetch_offset)
        self._jump(UNKNOWN)

    def begin(self, offset: int) -> None:
        """Go on where a leader says. Invariant: never before what was read already, whatever it says."""
        self._jump(max(offset, self.floor))

    def _jump(self, offset: int) -> None:
        self.position_version += 1
        self.position = self.fetch_offset = self.start = offset
        self.not_before = 0.0


class Subscription:
    """The partitions that a consumer reads: those of its topics, or those it was told one by one."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.topics: list[str] = []
        self.assigned: dict[TopicPartition, Assigned] = {}
        self.by_hand = False
        self._sought: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._absent: set[str] = set()
        self._out_of_sight: set[str] = set()
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics, once ``topics_seen`` tells what they are, and no others."""
        if isinstance(topics, str):
            raise ConfigError(f"topics must be a list, not {topics!r}", hint=f"give [{topics!r}]")
        self.topics = [check_topic_name(topic) for topic in dict.fromkeys(topics)]
        self.by_hand = False
        for gone in self._topic_ids.keys() - self.topics:
            del self._topic_ids[gone]
        self._absent &= set(self.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; partitions that stay keep their position."""
        wanted = {TopicPartition(check_topic_name(topic), partition): None for topic, partition in partitions}
        self.by_hand = True
        self._set(list(wanted))

    def add(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Read these too: from there, or from where reading begins without a position; unless the caller has sought."""
        self.by_hand = True
        sought = set(self._sought)
        for state in self._set([*self.assigned, *positions]):
            offset = positions[state.where]
            if offset is not None and state.where not in sought:
                state.seek(offset)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        gone = set(partitions)
        for where in gone:
            self._sought.pop(where, None)  # was meant for as long as it was read
        self._set([where for where in self.assigned if where not in gone])

    def wanted_topics(self) -> list[str]:
        return list(dict.fromkeys(where.topic for where in self.assigned)) if self.by_hand else self.topics

    def topics_seen(self, found: dict[str, tuple[str, int]]) -> list[str]:
        """Read all partitions of the topics that exist (id and partition count of each); gives back those that do not.

        What comes into being later (a topic, a partition, a topic that was deleted and created anew) is read from its
        beginning: all of its records are newer than the subscription.
        """
        self._forget_recreated(found)
        missing = [topic for topic in self.topics if topic not in found]
        for state in self._set([*self._partitions(found)]):
            state.from_beginning = state.where.topic in self._topic_ids or state.where.topic in self._absent
        self._topic_ids |= {topic: topic_id for topic, (topic_id, _) in found.items() if topic in self.topics}
        self._out_of_sight = set(missing)
        self._absent |= self._out_of_sight
        self._name_topics(found)
        return missing

    def _partitions(self, found: dict[str, tuple[str, int]]) -> Iterator[TopicPartition]:
        """What to read. A partition that was there stays until another topic has its name: it may only be out of sight."""
        for topic in self.topics:
            there = [where for where, state in self.assigned.items() if where.topic == topic and state.topic_id]
            count = found[topic][1] if topic in found else 0
            yield from dict.fromkeys([*there, *(TopicPartition(topic, i) for i in range(count))])

    def recreated(self, found: dict[str, tuple[str, int]]) -> None:
        """For partitions that were named one by one: what belongs to a topic created anew is read from its beginning."""
        wanted = list(self.assigned)
        self._forget_recreated(found)
        for state in self._set(wanted):
            state.from_beginning = True
        self._name_topics(found)

    def _forget_recreated(self, found: dict[str, tuple[str, int]]) -> None:
        gone = {
            where
            for where, state in self.assigned.items()
            if state.topic_id and where.topic in found and found[where.topic][0] != state.topic_id
        }
        if gone:
            self._set([where for where in self.assigned if where not in gone])

    def _name_topics(self, found: dict[str, tuple[str, int]]) -> None:
        for where, state in self.assigned.items():
            if where.topic in found and where.partition < found[where.topic][1]:
                state.topic_id = found[where.topic][0]

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Go on at ``offset``; a partition that is not assigned yet will begin there."""
        if offset < 0:
            raise ConfigError(f"seek to offset {offset}; offsets begin at 0")
        state = self.assigned.get(where)
        if state is None:
            self._sought[where] = offset
        else:
            state.seek(offset)

    def seek_first(self, where: TopicPartition, offset: int) -> None:
        """A partition that is not assigned yet will begin there, unless the caller has sought elsewhere."""
        if where not in self.assigned:
            self._sought.setdefault(where, offset)

    def pause(self, where: TopicPartition) -> None:
        """Give nothing more of a partition, not even what was fetched already."""
        state = self.state(where)
        state.paused = True
        state.forget_ahead()

    def resume(self, where: TopicPartition) -> None:
        self.state(where).paused = False

    def state(self, where: TopicPartition) -> Assigned:
        state = self.assigned.get(where)
        if state is None:
            raise ConfigError(
                f"{where} is not assigned to this consumer; assigned are {sorted(map(str, self.assigned))}"
            )
        return state

    @property
    def readable(self) -> bool:
        """Whether something can be read: a partition that has a position, of a topic that is there."""
        gone = self._out_of_sight if not self.by_hand else set()
        return any(state.fetch_offset != UNKNOWN and where.topic not in gone for where, state in self.assigned.items())

    def _set(self, wanted: list[TopicPartition]) -> list[Assigned]:
        """Read exactly these; gives back the new ones."""
        kept = {where: self.assigned[where] for where in wanted if where in self.assigned}
        new = [Assigned(where) for where in wanted if where not in kept]
        for state in self.assigned.values():
            if state.where not in kept:
                state.position_version += 1
        self.assigned = kept | {state.where: state for state in new}
        for state in new:
            if state.where in self._sought:
                state.seek(self._sought.pop(state.where))
        return new
