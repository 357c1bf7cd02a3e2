"""Whatever happens between a leader and its followers, once it is quiet they have the same records and know it."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.broker.replication import fetch_loop, fetch_sessions, followed
from ottla.broker.storage.log_config import FLUSH_DURABLE, FLUSH_OS, LogConfig
from ottla.wire.names import TopicPartition
from tests.component.replication.brokers import FETCH_WAIT_MS, Broker, Cluster, running_cluster, turns
from tests.support.logs import read_all
from tests.support.machine import scaled
from tests.support.waiting import eventually

FOLLOWERS = (2, 3)
SHORT_S = (0.001, 0.004)
QUIET_WITHIN_S = scaled(5.0)

WHO, WHICH = st.sampled_from(FOLLOWERS), st.integers(0, 5)
STEPS = st.one_of(
    *(st.tuples(st.just("append"), WHICH, st.integers(1, 4)) for _ in range(4)),
    st.tuples(st.just("create"), st.booleans()),
    st.tuples(st.just("drop"), WHO, WHICH),
    st.tuples(st.just("follow"), WHO, WHICH),
    st.tuples(st.just("new_epoch"), WHICH, st.booleans()),
    st.tuples(st.just("hear")),
    st.tuples(st.just("lead_in_between"), WHO, WHICH, st.integers(0, 2)),
    st.tuples(st.just("recreate"), WHICH),
    st.tuples(st.just("damage"), WHO, WHICH),
    st.tuples(st.just("heal"), WHO),
    st.tuples(st.just("cut"), WHO),
    st.tuples(st.just("new_life"), WHO, st.booleans()),
    st.tuples(st.just("turns"), st.integers(1, 8)),
    st.tuples(st.just("wait")),
)


class Story:
    """What may happen, step by step. Partitions are meant by a number, modulo how many there are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.partitions: list[TopicPartition] = []
        self.followed: dict[int, set[TopicPartition]] = {broker: set() for broker in FOLLOWERS}
        self.unheard: list[tuple[Broker, TopicPartition]] = []

    async def do_append(self, which: int, batches: int) -> None:
        where = self._where(which)
        if self.cluster.leader.partition(where).is_leader:
            self.cluster.leader.append(where, batches)

    async def do_create(self, leader_first: bool) -> None:
        where = TopicPartition("t", len(self.partitions))
        self.partitions.append(where)
        self.cluster.decide(where)
        for followed_by in self.followed.values():
            followed_by.add(where)
        brokers = self.cluster.brokers if leader_first else self.cluster.brokers[::-1]
        for broker in brokers:
            await self.cluster.tell(broker, where)

    async def do_drop(self, who: int, which: int) -> None:
        where = self._where(which)
        self.followed[who].discard(where)
        await self.cluster.stop(self.cluster.followers[who], where)

    async def do_follow(self, who: int, which: int) -> None:
        where = self._where(which)
        self.followed[who].add(where)
        await self.cluster.tell(self.cluster.followers[who], where)

    async def do_new_epoch(self, which: int, leader_first: bool) -> None:
        """The leader hears of it, or the followers do; the others do not yet."""
        where = self._where(which)
        self.cluster.decide(where)
        followers = [self.cluster.followers[who] for who in FOLLOWERS if where in self.followed[who]]
        now: list[Broker] = [self.cluster.leader] if leader_first else [*followers]
        later: list[Broker] = [*followers] if leader_first else [self.cluster.leader]
        for broker in now:
            await self.cluster.tell(broker, where)
        self.unheard += [(broker, where) for broker in later]

    async def do_hear(self) -> None:
        unheard, self.unheard = self.unheard, []
        for broker, where in unheard:
            if broker is self.cluster.leader or where in self.followed[broker.id]:
                await self.cluster.tell(broker, where)

    async def do_lead_in_between(self, who: int, which: int, batches: int) -> None:
        """A follower leads for one epoch: what it writes then is not committed, and must go."""
        where = self._where(which)
        await self.do_hear()
        if where in self.followed[who]:
            self.cluster.decide(where, leader=who)
            await self.cluster.tell(self.cluster.followers[who], where)
            await self.cluster.tell(self.cluster.leader, where)
            self.cluster.followers[who].append(where, batches)
            await self.do_new_epoch(which, leader_first=True)
            await self.do_hear()

    async def do_recreate(self, which: int) -> None:
        """As the controller does it: nobody has the old one any more when there is a new one."""
        where = self._where(which)
        await self.do_hear()
        for broker in reversed(self.cluster.brokers):
            await self.cluster.stop(broker, where, delete=True)
        del self.cluster.states[where]
        await self.do_new_epoch(which, leader_first=True)
        await self.do_hear()

    async def do_damage(self, who: int, which: int) -> None:
        """From now on the records of this partition do not arrive as they were sent."""
        for line in self.cluster.followers[who].lines[-1:]:
            line.to_damage.add(self._where(which))

    async def do_heal(self, who: int) -> None:
        for line in self.cluster.followers[who].lines[-1:]:
            line.to_damage.clear()

    async def do_cut(self, who: int) -> None:
        for line in self.cluster.followers[who].lines[-1:]:
            line.cut()

    async def do_new_life(self, who: int, fenced: bool) -> None:
        follower = self.cluster.followers[who]
        if fenced:
            follower.partitions.step_down_all()
        follower.identity = replace(follower.identity, broker_epoch=follower.identity.broker_epoch + 1)
        if fenced and self.followed[who]:
            await self.cluster.tell(follower, *self.followed[who])

    async def do_turns(self, count: int) -> None:
        await turns(count)

    async def do_wait(self) -> None:
        await asyncio.sleep(2 * SHORT_S[0])  # so that what is left alone for a moment is tried again, or nearly

    def _where(self, which: int) -> TopicPartition:
        return self.partitions[which % len(self.partitions)]

    # --- how it ends -----------------------------------------------------------------------------------------------------

    def differences(self) -> list[str]:
        """What a follower does not have or know, or what its leader does not know of it."""
        return [
            f"broker {who}, {where}: {what}"
            for who, partitions in self.followed.items()
            for where in sorted(partitions)
            for what in self._differences(who, where)
        ]

    def _differences(self, who: int, where: TopicPartition) -> list[str]:
        ours, theirs = self.cluster.leader.partition(where), self.cluster.followers[who].partition(where)
        known = self.cluster.leader.leading(where).followers[who]
        life = self.cluster.followers[who].identity.broker_epoch
        found = []
        if (read_all(ours.log), ours.log.log_end_offset) != (read_all(theirs.log), theirs.log.log_end_offset):
            found.append(f"the log ends at {theirs.log.log_end_offset}, not {ours.log.log_end_offset}, or is another")
        if ours.high_watermark != theirs.high_watermark:
            found.append(f"the high watermark is {theirs.high_watermark}, not {ours.high_watermark}")
        if (known.log_end_offset, known.broker_epoch) != (ours.log.log_end_offset, life):
            found.append(f"known to end at {known.log_end_offset} in life {known.broker_epoch}, which is {life}")
        return found

    async def agree(self) -> None:
        try:
            await eventually(lambda: not self.differences(), QUIET_WITHIN_S)
        except AssertionError:
            assert self.differences() == []

    async def end(self) -> None:
        await self.do_hear()
        for who in FOLLOWERS:
            await self.do_heal(who)
        await self.agree()
        for where in self.partitions:  # a follower that has something to say says what it has dropped, too
            self.cluster.leader.append(where)
        await self.agree()
        for who, partitions in self.followed.items():
            if partitions:
                assert self.cluster.leader.named_by(who) == partitions


async def tell_story(
    steps: list[tuple[Any, ...]], partition_bytes: int, fetch_bytes: int, config: LogConfig, folder: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed, "PARTITION_BYTES", partition_bytes)
        patch.setattr(followed, "FETCH_BYTES", fetch_bytes)
        patch.setattr(followed, "FIRST_PARTITION_RETRY_S", SHORT_S[0])
        patch.setattr(followed, "LAST_PARTITION_RETRY_S", SHORT_S[1])
        patch.setattr(fetch_loop, "FIRST_RETRY_S", SHORT_S[0])
        patch.setattr(fetch_loop, "LAST_RETRY_S", SHORT_S[1])
        patch.setattr(fetch_sessions, "COMMITTED_DELAY_S", SHORT_S[0])
        # A follower that is not told anything in its new life goes on when the last fetch of its former one has waited enough.
        untold = any(name == "new_life" and not arguments[1] for name, *arguments in steps)
        fetch_wait_ms = 30 if untold else FETCH_WAIT_MS
        async with running_cluster(folder, FOLLOWERS, fetch_wait_ms, config) as cluster:
            story = Story(cluster)
            await story.do_create(True)
            await story.do_create(False)
            for name, *arguments in steps:
                await getattr(story, f"do_{name}")(*arguments)
            await story.end()
            if fetch_wait_ms == FETCH_WAIT_MS:
                await stays_quiet(story)


async def stays_quiet(story: Story) -> None:
    """Nobody asks when there is nothing to be had."""
    following = [story.cluster.followers[who] for who, partitions in story.followed.items() if partitions]
    await asyncio.sleep(5 * SHORT_S[1])
    asked = [len(follower.line.requests) for follower in following]
    await asyncio.sleep(2 * SHORT_S[1])
    assert [len(follower.line.requests) for follower in following] == asked


# Not shrunk: every story makes its logs anew on disk; the failing steps are printed as they were.
@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.lists(STEPS, min_size=15, max_size=30),
    st.sampled_from([1, 250, 2 * 1024 * 1024]),
    st.sampled_from([1, 400, 16 * 1024 * 1024]),
    st.sampled_from([FLUSH_OS, FLUSH_DURABLE]),
)
def test_when_it_is_quiet_followers_have_the_same_records_and_their_leader_knows_it(
    steps: list[tuple[Any, ...]], partition_bytes: int, fetch_bytes: int, flush_policy: str
) -> None:
    config = LogConfig(flush_policy=flush_policy)
    with tempfile.TemporaryDirectory(prefix="ottla-following-") as folder:
        asyncio.run(tell_story(steps, partition_bytes, fetch_bytes, config, Path(folder)))
