"""What followers fetch from this broker: each from where in which partitions, and what there is to tell it.

A follower names a partition when its place there has changed; what it does not name stands as it was. So a fetch costs what has
happened since the one before, however many partitions there are. Nothing here waits; all of it is compiled.
"""

from collections.abc import Hashable

from ottla.broker.replication.partition import Divergence, Partition
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.purgatory import Purgatory, Waiting
from ottla.broker.replication.state import LeaderState
from ottla.net.reply import Reply
from ottla.wire.batch import Buffer
from ottla.wire.errors import FetchSessionIdNotFound, NotLeaderOrFollower, OttlaError, StaleBrokerEpoch
from ottla.wire.requests import FetchPart, FetchPartResult, FetchResponse

PlaceName = tuple[str, int]


class Place:
    """Where a follower is in one partition, as it named it: ``partition`` and ``leading`` are what was found then."""

    __slots__ = ("answered", "leading", "part", "partition", "refused", "session", "told")

    def __init__(self, session: "FollowerSession", part: FetchPart) -> None:
        self.session = session
        self.part = part
        self.partition: Partition | None = None
        self.leading: LeaderState | None = None
        self.refused: OttlaError | Divergence | None = None
        self.answered = False
        """Records or an error are on the way: where the follower is we shall know when it names the partition again."""
        self.told = -1
        """The high watermark that it knows."""


class FollowerSession:
    """What one life of a follower fetches over one connection."""

    __slots__ = (
        "_news", "_places", "_registry", "_unaware", "broker_epoch", "fetched_at", "max_bytes", "owner", "replica", "waiting"
    )  # fmt: skip

    def __init__(self, registry: "Followers", replica: int, broker_epoch: int, owner: Hashable) -> None:
        self._registry = registry
        self._places: dict[PlaceName, Place] = {}
        self._news: dict[Place, None] = {}
        self._unaware: dict[Place, None] = {}
        self.replica = replica
        self.broker_epoch = broker_epoch
        self.owner = owner
        self.fetched_at = 0.0
        self.max_bytes = 0
        """How much may come in an answer, by its last fetch."""
        self.waiting: Waiting | None = None
        """Its fetch that waits for news."""

    # --- what the follower says ------------------------------------------------------------------------------------------

    def name(self, part: FetchPart) -> Place:
        """It is there now."""
        name = (part.topic, part.partition)
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = Place(self, part)
            self._registry.add(name, place)
        else:
            place.part = part
            place.refused = None
            self._news.pop(place, None)
        place.answered = False
        return place

    def follow(self, place: Place, partition: Partition) -> None:
        """Its log is a prefix of ours: tell it what comes next."""
        place.partition, place.leading = partition, partition.leading
        if place.part.offset != partition.log.log_end_offset:
            self._news[place] = None
        if place.told < partition.high_watermark:
            self._unaware[place] = None

    def refuse(self, place: Place, why: OttlaError | Divergence) -> None:
        place.refused = why
        self._news[place] = None

    def drop(self, name: PlaceName) -> None:
        place = self._places.pop(name, None)
        if place is not None:
            self._news.pop(place, None)
            self._unaware.pop(place, None)
            self._registry.remove(name, place)

    def end(self) -> None:
        for name in list(self._places):
            self.drop(name)

    # --- what happens to partitions --------------------------------------------------------------------------------------

    def stir(self, place: Place) -> None:
        """There is more in the partition, or it is not what it was."""
        if place.answered or place in self._news:
            return
        if place.leading is not None:
            # Up to its last fetch it had everything, though it did not name this partition then.
            place.leading.level_until(self.replica, self.fetched_at)
        self._news[place] = None
        self._registry.touch(self)

    def note_commit(self, place: Place) -> None:
        self._unaware[place] = None

    # --- what it is told -------------------------------------------------------------------------------------------------

    def take_news(self, partitions: Partitions, results: list[FetchPartResult], attachments: list[Buffer]) -> int:
        """Add the records and errors that there are for it; how many bytes of records."""
        size = 0
        left = self.max_bytes
        for place in list(self._news):
            if left <= 0 and size:
                break
            del self._news[place]
            try:
                # The first batch of an answer comes whole, or one larger than the limits would be in the way for ever.
                count = self._take_records(place, partitions, left, size == 0, attachments)
            except OttlaError as error:
                place.refused = error
            if place.refused is not None:
                results.append(_refusal(place, partitions))
                place.answered, place.refused = True, None
            elif count:
                size += count
                left -= count
                place.answered = True
                results.append(self._told(place, count))
        return size

    def _take_records(
        self, place: Place, partitions: Partitions, most: int, at_least_one: bool, attachments: list[Buffer]
    ) -> int:
        """Add the records that come next in one partition; how many bytes."""
        if place.refused is not None:
            return 0
        part = place.part
        partition = partitions.led(part.topic, part.partition, part.leader_epoch)
        if partition is not place.partition or partition.leading is not place.leading:
            # Of what was known of the follower nothing holds: it must say again where it is.
            raise NotLeaderOrFollower(f"{partition.where} is not what it was when it was named")
        views = partition.read_for_replica(part.offset, min(max(part.max_bytes, 0), most), at_least_one=at_least_one)
        count = 0
        for view in views:
            count += len(view)
        attachments += views
        if not count and part.offset != partition.log.log_end_offset:
            self._news[place] = None  # it did not fit: next time
        return count

    def take_commits(self, results: list[FetchPartResult]) -> None:
        """Add what is committed, where it does not know."""
        for place in list(self._unaware):
            partition = place.partition
            if (
                partition is not None
                and partition.leading is place.leading is not None
                and place.refused is None
                and not place.answered
                and partition.high_watermark > place.told
            ):
                results.append(self._told(place, 0))
        self._unaware.clear()

    @property
    def is_unaware(self) -> bool:
        """Whether more may be committed than it knows."""
        return bool(self._unaware)

    def _told(self, place: Place, size: int) -> FetchPartResult:
        partition = place.partition
        assert partition is not None
        self._unaware.pop(place, None)
        place.told = partition.high_watermark
        return FetchPartResult(
            0, "", place.part.topic, place.part.partition, size, partition.high_watermark, partition.log.log_start_offset,
            partition.leader, partition.leader_epoch,
        )  # fmt: skip


class Followers:
    """All that fetch from this broker as replicas, and who of them fetches which partition."""

    def __init__(self, room: Purgatory) -> None:
        self._room = room
        self._sessions: dict[int, FollowerSession] = {}
        self._places: dict[PlaceName, dict[int, Place]] = {}

    def all(self) -> list[FollowerSession]:
        return list(self._sessions.values())

    def begin(self, replica: int, broker_epoch: int, owner: Hashable) -> FollowerSession:
        """A follower begins anew: what was known of it is forgotten."""
        last = self._sessions.get(replica)
        if last is not None:
            if broker_epoch < last.broker_epoch:
                raise StaleBrokerEpoch(f"broker {replica} has a later life, epoch {last.broker_epoch}")
            last.end()
            if last.waiting is not None:
                last.waiting.give(Reply(FetchResponse([])))
        session = self._sessions[replica] = FollowerSession(self, replica, broker_epoch, owner)
        return session

    def get(self, replica: int, broker_epoch: int, owner: Hashable) -> FollowerSession:
        """What this life of a follower fetches over this connection."""
        session = self._sessions.get(replica)
        if session is None or session.owner is not owner or session.broker_epoch != broker_epoch:
            raise FetchSessionIdNotFound(f"broker {replica} has named nothing over this connection yet")
        return session

    def stir(self, partition: Partition) -> None:
        """Records were appended to it, or it is not what it was."""
        places = self._places.get(partition.where)
        if places is not None:
            for place in places.values():
                place.session.stir(place)

    def note_commit(self, partition: Partition) -> None:
        """More of it is committed."""
        places = self._places.get(partition.where)
        if places is not None:
            for place in places.values():
                place.session.note_commit(place)

    def touch(self, session: FollowerSession) -> None:
        self._room.touch(session)

    def add(self, name: PlaceName, place: Place) -> None:
        self._places.setdefault(name, {})[place.session.replica] = place

    def remove(self, name: PlaceName, place: Place) -> None:
        places = self._places[name]
        del places[place.session.replica]
        if not places:
            del self._places[name]


def _refusal(place: Place, partitions: Partitions) -> FetchPartResult:
    """Why nothing comes: an error, or where the follower must cut its log."""
    part, why = place.part, place.refused
    assert why is not None
    if isinstance(why, OttlaError):
        start = partitions.log_start_offset(part.topic, part.partition)
        return FetchPartResult(why.code, str(why), part.topic, part.partition, log_start_offset=start)
    epoch, end = why
    return FetchPartResult(0, "", part.topic, part.partition, diverging_epoch=epoch, diverging_end=end)
