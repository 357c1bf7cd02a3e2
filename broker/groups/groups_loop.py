"""The groups that this broker coordinates: loaded when somebody asks, kept while it is their coordinator, and their time."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ottla.broker.cluster_view import ClusterView
from ottla.broker.groups.cluster_changes import ClusterChanges
from ottla.broker.groups.consumer_membership import ConsumerGroup
from ottla.broker.groups.coordinated import Coordinated
from ottla.broker.groups.coordinator import coordinator_of
from ottla.broker.groups.kinds import GroupKinds
from ottla.broker.groups.limits import GroupLimits, check_group_id
from ottla.broker.groups.membership import Answer, Effect, Group, Write
from ottla.broker.groups.mirror import members_of, sentence, shown_owners
from ottla.broker.groups.writes_loop import GroupWrites, PendingWrite
from ottla.net.reply import Later, Reply
from ottla.net.timer import Timer
from ottla.wire.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NonEmptyGroup,
    NotCoordinator,
    OttlaError,
)
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.errors import BadVersion, MultiFailed, NoNode, ZkError
from ottla.zk.groups import GroupWrite, delete_group, find_group, group_names, take_over
from ottla.zk.session.session import ZkSession
from ottla.zk.znodes.consumers import CONSUMER_KIND

logger = logging.getLogger(__name__)

EMPTY = "Empty"
"""The state of a group without members, of either kind."""

RECORD_MAX = 900_000
"""A group's znode: ZooKeeper takes a megabyte."""
HEAD_BYTES = 200
"""Of that, what the coordinator adds to what the group says."""
TOUCH_MS = 3_600_000
"""How exactly it is known when a group was last used: it is written no more often than that for its own sake."""


class Groups:
    """Owns a task for each group that is being read, and a timer for each that is at hand, until ``stop``."""

    def __init__(
        self,
        session: ZkSession,
        broker_id: int,
        view: ClusterView,
        limits: GroupLimits,
        unsure: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """``unsure`` tells whether ZooKeeper may have given this broker up, ``now_ms`` the time of day for its znodes."""
        self.limits = limits
        self._session = session
        self._broker_id = broker_id
        self._view = view
        self._unsure = unsure
        self._now_ms = now_ms
        self._kinds = GroupKinds(view, limits)
        view.on_group_settings.append(lambda: self.set_limits(self.limits))
        self._writes = GroupWrites(session)
        self._groups: dict[str, Coordinated] = {}
        self._loading: dict[str, asyncio.Task[Coordinated]] = {}
        self._deleting: set[str] = set()
        self.on_changed: list[Callable[[str], None]] = []
        """All are called with the id of a group that is not what it was, or is coordinated elsewhere."""
        self.changes = ClusterChanges(self)
        """To be told what is new in the cluster."""

    def set_limits(self, limits: GroupLimits) -> None:
        """From now on; members that are too many by the new ones stay."""
        self.limits = self._kinds.limits = limits
        for coordinated in self._groups.values():
            self._kinds.limit(coordinated.group)

    async def stop(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.changes.stop()
        self.give_all_up()
        await self._writes.stop()

    # --- who coordinates what ----------------------------------------------------------------------------------------------

    def coordinator_of(self, group_id: str, listener: str) -> BrokerEndpoint:
        """Where a client that came in through a listener finds it. CoordinatorNotAvailable if this broker does not know."""
        check_group_id(group_id)
        broker = coordinator_of(group_id, self._view.brokers) if self._view.known else None
        endpoint = self._view.endpoint_through(broker, listener) if broker is not None else None
        if endpoint is None:
            raise CoordinatorNotAvailable("this broker knows of no other yet")
        return endpoint

    def check_mine(self, group_id: str) -> None:
        """NotCoordinator unless this broker is the group's coordinator, as far as it knows."""
        check_group_id(group_id)
        if self._unsure():
            raise NotCoordinator("this broker is cut off from ZooKeeper, and may coordinate nothing any more")
        if not self._view.known or coordinator_of(group_id, self._view.brokers) != self._broker_id:
            raise NotCoordinator(f"broker {self._broker_id} does not coordinate group {group_id!r}")

    @property
    def broker_id(self) -> int:
        return self._broker_id

    def loaded(self, group_id: str) -> Coordinated | None:
        """The group, if it is at hand."""
        self.check_mine(group_id)
        return self._groups.get(group_id)

    def cluster_changed(self) -> None:
        self.changes.metadata_changed(self._view.brokers)

    def all(self) -> list[Coordinated]:
        """Those at hand."""
        return list(self._groups.values())

    def let_go_if_elsewhere(self, coordinated: Coordinated) -> None:
        """Whoever waits is told to look for the coordinator, if it is another broker by now."""
        if coordinator_of(coordinated.group.group_id, self._view.brokers) != self._broker_id:
            self._give_up(coordinated)

    async def get(self, group_id: str, *, make: bool = True) -> Coordinated:
        """The group. One that does not exist is made if wanted; else GroupIdNotFound."""
        found = self.loaded(group_id)
        if found is not None:
            return found
        if group_id in self._deleting:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being deleted")
        task = self._loading.get(group_id)
        if task is None or task.done():  # one that has failed this very moment would fail again, and again
            task = asyncio.get_running_loop().create_task(self._load(group_id, make), name=f"load group {group_id}")
            self._loading[group_id] = task
            task.add_done_callback(partial(self._loaded, group_id))
        try:
            return await asyncio.shield(task)
        except GroupIdNotFound:
            if not make:
                raise
        return await self.get(group_id)  # somebody else only wanted to know whether it exists

    def _loaded(self, group_id: str, task: "asyncio.Task[Coordinated]") -> None:
        if self._loading.get(group_id) is task:
            del self._loading[group_id]
        if not task.cancelled():
            task.exception()  # looked at: whoever waited for it may have hung up, and asyncio would make a traceback of it

    async def _load(self, group_id: str, make: bool) -> Coordinated:
        """Write that this broker coordinates it, so that whoever did before can write nothing from then on, and read it."""
        try:
            loaded = await find_group(self._session, group_id, make=make)
            if loaded is None:
                raise GroupIdNotFound(f"group {group_id!r} does not exist")
            await take_over(self._session, loaded, self._broker_id, self._now_ms())
        except (BadVersion, NoNode) as error:
            raise CoordinatorNotAvailable(f"group {group_id!r} is not what it was when it was read: {error}") from None
        except ZkError as error:
            raise CoordinatorNotAvailable(f"ZooKeeper cannot be asked about group {group_id!r}: {error}") from None
        self.check_mine(group_id)  # it may have another coordinator by now
        group = self._kinds.load(group_id, loaded.znode, time.monotonic())
        coordinated = self._groups[group_id] = Coordinated(group, loaded)
        logger.info(
            "group is coordinated here group=%s generation=%d members=%d offsets=%d",
            group_id, group.generation, len(group.members), len(loaded.offsets),
        )  # fmt: skip
        self._look_at_topics(coordinated)
        self._set_timer(coordinated)
        return coordinated

    def _look_at_topics(self, coordinated: Coordinated) -> None:
        """They may have changed while nobody coordinated it."""
        group = coordinated.group
        if not isinstance(group, ConsumerGroup):
            return
        effects = group.topics_changed()
        if any(isinstance(one, Write) and one.record.is_larger_than(RECORD_MAX - HEAD_BYTES) for one in effects):
            logger.error("group goes on with the topics that it has: all others are too many group=%s", group.group_id)
            loaded = self._kinds.load(group.group_id, coordinated.loaded.znode, time.monotonic())
            assert isinstance(loaded, ConsumerGroup)
            loaded.keep_to_its_topics()
            coordinated.group, effects = loaded, loaded.topics_changed()
        self.apply(coordinated, effects)

    def classic(self, coordinated: Coordinated) -> Group:
        """The group as one whose members assign, for somebody who joins it."""
        coordinated.group = found = self._kinds.as_classic(coordinated.group, time.monotonic())
        return found

    def consumer(self, coordinated: Coordinated) -> ConsumerGroup:
        """The group as one whose partitions are assigned here, for somebody who joins it."""
        coordinated.group = found = self._kinds.as_consumer(coordinated.group, time.monotonic())
        return found

    def give_all_up(self) -> None:
        """This life of the broker is over."""
        for coordinated in list(self._groups.values()):
            self._give_up(coordinated)

    def _give_up(self, coordinated: Coordinated) -> None:
        group = coordinated.group
        if coordinated.over:
            return
        coordinated.over = True
        if self._groups.get(group.group_id) is coordinated:
            del self._groups[group.group_id]
        if coordinated.timer is not None:
            coordinated.timer.cancel()
        why = NotCoordinator(f"broker {self._broker_id} coordinates group {group.group_id!r} no more")
        self._answer_all([effect for effect in group.give_up(why) if isinstance(effect, Answer)])
        self._writes.drop(coordinated.loaded, why)
        self._changed(coordinated)
        logger.info("group is coordinated elsewhere group=%s", group.group_id)

    # --- what is decided ---------------------------------------------------------------------------------------------------

    def apply(self, coordinated: Coordinated, effects: list[Effect]) -> None:
        """Carry out what a group decided, in order."""
        for effect in effects:
            if isinstance(effect, Write):
                self._write(coordinated, effect)
            elif coordinated.unwritten:
                coordinated.unwritten[-1].append(effect)  # Invariant: nobody is told what is not written yet
            else:
                self._answer_all([effect])
        self._set_timer(coordinated)
        self._changed(coordinated)
        self.changes.work_in_thread(coordinated)

    def _changed(self, coordinated: Coordinated) -> None:
        for changed in self.on_changed:
            changed(coordinated.group.group_id)

    def _answer_all(self, answers: list[Answer]) -> None:
        for ticket, response in answers:
            assert isinstance(ticket, Later)
            ticket.give(Reply(response))

    def _write(self, coordinated: Coordinated, write: Write) -> None:
        life = coordinated.loaded.znode.life
        record = replace(write.record, coordinator=self._broker_id, touched_ms=self._now_ms(), life=life)
        if record.is_larger_than(RECORD_MAX):
            self._too_large(coordinated, write)
            return
        logger.info("%s", sentence(coordinated.group.group_id, record, coordinated.group.why))
        waits = coordinated.last_put
        if waits is not None and not waits.taken and record.kind == CONSUMER_KIND:
            # Of many steps in a short time one write is made. Nothing else was put since: the order stays what it was.
            waits.record = record
            coordinated.unwritten[-1] += write.then
            return
        coordinated.unwritten.append(list(write.then))

        def fill(operations: GroupWrite) -> None:
            record = item.record
            assert record is not None
            operations.leave_room(min(record.size_at_most(), RECORD_MAX))
            operations.set_members(members_of(record))
            if record.assigned or not (record.members or record.consumers):
                operations.own(shown_owners(record))

        def done(error: OttlaError | None) -> None:
            coordinated.writing -= 1
            answers = coordinated.unwritten.popleft()
            if error is None and item.record is not None:
                coordinated.loaded.znode, coordinated.last_used_ms = item.record, self._now_ms()
                self._answer_all(answers)
                return
            # What could not be written is not decided: whoever coordinates next begins with what stands there.
            for ticket, _ in answers:
                assert isinstance(ticket, Later)
                ticket.give(Reply(None, error=NotCoordinator(f"it could not be written: {error}")))
            self._give_up(coordinated)

        coordinated.writing += 1
        item = coordinated.last_put = PendingWrite(coordinated.loaded, fill, done, record)
        self._writes.put(item)

    def _too_large(self, coordinated: Coordinated, write: Write) -> None:
        """What its members say of themselves does not fit into a znode: then there is no such generation."""
        group = coordinated.group
        why = GroupMaxSizeReached(
            f"group {group.group_id!r}: its {len(group.members)} members take more than {RECORD_MAX} bytes"
        )
        logger.error("group cannot be written error=%s", why)
        for ticket, _ in write.then:
            assert isinstance(ticket, Later)
            ticket.give(Reply(None, error=why))
        self._give_up(coordinated)

    def commit(
        self, coordinated: Coordinated, fill: Callable[[GroupWrite], None], done: Callable[[OttlaError | None], None]
    ) -> None:
        """Write offsets, with whatever other groups have to write."""
        record = None
        known = coordinated.loaded.znode
        if not coordinated.writing and self._now_ms() - known.touched_ms > self._touch_ms:
            # Invariant: what stands, and when. What the group is about to decide is not written by the way.
            record = replace(known, touched_ms=self._now_ms())

        def written(error: OttlaError | None) -> None:
            coordinated.writing -= record is not None
            if error is None:
                coordinated.last_used_ms = self._now_ms()
                if record is not None:
                    coordinated.loaded.znode = record
            elif not isinstance(error, InvalidRequest):
                # Perhaps it was written all the same: what is at hand may not be what stands there. It is read anew.
                self._give_up(coordinated)
            done(error)

        coordinated.writing += record is not None
        coordinated.last_put = None
        self._writes.put(PendingWrite(coordinated.loaded, fill, written, record))

    @property
    def _touch_ms(self) -> int:
        return min(TOUCH_MS, self.limits.retention_ms // 4)

    def idle_ms(self, coordinated: Coordinated, now_ms: int) -> int:
        """For how long nobody has used a group, at least. Its znode tells the last use only as exactly as it is touched."""
        return now_ms - (coordinated.last_used_ms or coordinated.loaded.znode.touched_ms + self._touch_ms)

    async def _written(self, coordinated: Coordinated) -> None:
        """Return when all that was decided about a group until now stands in ZooKeeper; raise what kept it from that."""
        done: asyncio.Future[OttlaError | None] = asyncio.get_running_loop().create_future()
        self.commit(coordinated, lambda _: None, lambda error: None if done.done() else done.set_result(error))
        if (error := await done) is not None:
            raise error

    def _set_timer(self, coordinated: Coordinated) -> None:
        """Its next deadline. One that has moved further away is noticed when the earlier one comes."""
        deadline = coordinated.group.next_deadline()
        if deadline is None or coordinated.over:
            return
        when = asyncio.get_running_loop().time() + max(0.0, deadline - time.monotonic())
        if coordinated.timer is not None:
            if coordinated.timer.when <= when:
                return
            coordinated.timer.cancel()
        coordinated.timer = Timer(when, partial(self._time_has_come, coordinated))

    def _time_has_come(self, coordinated: Coordinated) -> None:
        coordinated.timer = None
        if self._unsure():
            self._give_up(coordinated)  # who was not heard may have been refused: its session begins anew
        elif not coordinated.over:
            self.apply(coordinated, coordinated.group.tick(time.monotonic()))

    # --- all of them --------------------------------------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """Of all groups that this broker coordinates, at hand or not."""
        try:
            names = await group_names(self._session)
        except ZkError as error:
            raise CoordinatorNotAvailable(f"ZooKeeper cannot be asked: {error}") from None
        return [name for name in names if coordinator_of(name, self._view.brokers) == self._broker_id]

    async def delete(self, group_id: str) -> None:
        """Forget a group without members, and all that it committed."""
        while True:
            coordinated = await self.get(group_id, make=False)
            if coordinated.group.state != EMPTY:
                count = len(coordinated.group.members)
                raise NonEmptyGroup(f"group {group_id!r} has {count} member{'s' if count != 1 else ''}")
            if not coordinated.writing:
                break
            await self._written(coordinated)  # its last member has left a moment ago: the znode is about to change
        self._give_up(coordinated)
        self._deleting.add(group_id)
        try:
            await delete_group(self._session, coordinated.loaded)
        except MultiFailed:
            raise NotCoordinator(f"another broker coordinates group {group_id!r} by now") from None
        except ZkError as error:
            raise CoordinatorNotAvailable(f"group {group_id!r} was not wholly deleted: {error}") from None
        finally:
            self._deleting.discard(group_id)
        logger.info("group deleted group=%s", group_id)
