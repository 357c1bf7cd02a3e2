"""Members of a group whose coordinator assigns, at random: they join, leave, confirm, crash and time out; answers are lost,
coordinators die with what they have not written, topics come, grow and go.

At no time do two members own one partition, and when it has become quiet every partition is owned exactly once.

A member here does what librdkafka does: what it was told it takes over in steps, first letting go, then taking; then it says
what it owns. While such a report is on its way it takes nothing: what comes back may be less than it was told before.
"""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from ottla.broker.groups.consumer_membership import ConsumerGroup, TopicShape
from ottla.broker.groups.consumers import NONE, Partitions, by_topic
from ottla.broker.groups.limits import ConsumerGroupTimes
from ottla.broker.groups.membership import Answer, Client, Effect, Write
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.errors import FencedInstanceId, FencedMemberEpoch, UnknownMemberId, UnreleasedInstanceId
from ottla.zk.znodes.consumers import GroupZnode
from tests.unit.broker.groups.consumer_group_script import ScriptTopics

SEEDS = 60
STEPS = 400
SESSION_S = 10.0
REBALANCE_S = 6.0
QUIET_ROUNDS = 40
SUBSCRIPTIONS = [(("a", "b"), None), (("a",), None), (("b", "c"), None), ((), "a|c"), ((), ".*")]


@dataclass(eq=False)
class Reader:
    """A client."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    pattern: str | None
    epoch: int = 0
    owns: Partitions = NONE
    told: Partitions = NONE
    asking: bool = False
    reporting: bool = False
    """Whether a heartbeat that said what it owns may be on its way."""
    says_all: bool = True
    reports: bool = False
    """Whether it has taken over what it was told, and is to say so."""
    leaving: int = 0

    def request(self) -> ConsumerGroupHeartbeatRequest:
        whole = self.says_all or self.epoch == 0
        if whole or self.reports:
            self.reporting = True
        self.asking = True
        return ConsumerGroupHeartbeatRequest(
            "g", self.member_id, self.epoch, self.instance_id, None,
            int(REBALANCE_S * 1000) if whole else -1,
            self.topics if whole else None,
            (self.pattern or "") if whole else None,
            None,
            by_topic(self.owns) if whole or self.reports else None,
        )  # fmt: skip

    def take_over(self) -> None:
        """One step from what it owns to what it was told."""
        if self.owns - self.told:
            self.owns = self.owns & self.told
            self.reports = self.owns == self.told
        elif self.told - self.owns and not self.reporting:
            self.owns, self.reports = self.told, True

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.asking = self.reporting = False
        if response.error_code in (UnknownMemberId.code, FencedMemberEpoch.code, FencedInstanceId.code):
            self.owns, self.told, self.epoch, self.says_all = NONE, NONE, 0, True
            return
        if response.error_code:
            assert response.error_code == UnreleasedInstanceId.code, response
            return
        self.epoch, self.says_all, self.reports = response.member_epoch, False, False
        if response.assignment is not None:
            self.told = frozenset((topic.topic_id, n) for topic in response.assignment for n in topic.partitions)

    def heard_nothing(self) -> None:
        """The answer is lost: it says all again, with what it owns by then."""
        self.asking, self.says_all = False, True


@dataclass
class World:
    seed: int
    now: float = 0.0
    names: int = 0
    readers: list[Reader] = field(default_factory=list)
    unwritten: "deque[Write]" = field(default_factory=deque)
    written: GroupZnode = field(default_factory=GroupZnode)
    writes: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.topics = ScriptTopics()
        self.topics.shapes = {"a": TopicShape("A", 4), "b": TopicShape("B", 3)}
        self.group = self.take_over_group()

    def take_over_group(self) -> ConsumerGroup:
        """A coordinator begins with what was written; what was not is lost, with all answers."""
        for write in self.unwritten:
            for answer in write.then:
                assert isinstance(answer.ticket, Reader)
                answer.ticket.heard_nothing()
        self.unwritten.clear()
        self.group = ConsumerGroup(
            "g", lambda name: "made", self.topics, max_size=100, times=ConsumerGroupTimes(int(SESSION_S * 1000), 1000)
        )
        self.group.load(GroupZnode.decode("g", self.written.encode()), self.now)
        self.apply(self.group.topics_changed())
        return self.group

    # --- what a coordinator does with what was decided ---------------------------------------------------------------------

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Write):
                self.unwritten.append(effect)
                self.writes += 1
            elif self.unwritten:  # nobody is told what is not written yet
                last = self.unwritten[-1]
                self.unwritten[-1] = Write(last.record, (*last.then, effect))
            else:
                self.give(effect)

    def give(self, answer: Answer) -> None:
        reader, response = answer.ticket, answer.response
        assert isinstance(reader, Reader)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if reader not in self.readers:
            return
        if self.random.random() < 0.05:
            reader.heard_nothing()
        else:
            reader.answered(response)

    def write_one(self) -> None:
        if self.unwritten:
            write = self.unwritten.popleft()
            self.written = write.record
            for answer in write.then:
                self.give(answer)

    # --- what happens ------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        self.names += 1
        topics, pattern = self.random.choice(SUBSCRIPTIONS)
        instance = self.random.choice([None, None, "first", "second"])
        self.readers.append(Reader(f"m{self.names}", instance, topics, pattern))

    def beat(self, reader: Reader) -> None:
        if not reader.asking:
            request = reader.request()
            self.apply(self.group.heartbeat(reader, request, Client("c", "h"), self.now))

    def leave(self, reader: Reader) -> None:
        """It has let go of all before it says so; whether that is heard is not its business any more."""
        reader.owns = NONE
        self.readers.remove(reader)
        epoch = -2 if reader.instance_id is not None and self.random.random() < 0.7 else -1
        request = ConsumerGroupHeartbeatRequest("g", reader.member_id, epoch, reader.instance_id)
        self.apply(self.group.heartbeat(reader, request, Client("c", "h"), self.now))

    def change_topics(self) -> None:
        name = self.random.choice("abc")
        known = self.topics.shapes.get(name)
        if known is None:
            self.names += 1
            self.topics.shapes[name] = TopicShape(f"{name}{self.names}", self.random.randint(1, 4))
        elif self.random.random() < 0.5:
            self.topics.shapes[name] = TopicShape(known.topic_id, known.partitions + 1)
        else:
            del self.topics.shapes[name]
        self.apply(self.group.topics_changed())

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.group.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.apply(self.group.tick(self.now))

    def step(self) -> None:
        kind = self.random.random()
        reader = self.random.choice(self.readers) if self.readers else None
        if kind < 0.03 or reader is None:
            self.join() if len(self.readers) < 6 else None
        elif kind < 0.05:
            self.leave(reader)
        elif kind < 0.06:
            self.readers.remove(reader)  # a crash
        elif kind < 0.08:
            self.change_topics()
        elif kind < 0.10:
            self.take_over_group()
        elif kind < 0.20:
            self.pass_time(self.random.uniform(0, 1.5))
        elif kind < 0.45:
            self.write_one()
        elif kind < 0.70:
            reader.take_over()
        else:
            self.beat(reader)

    # --- what must hold ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        held: dict[tuple[str, int], str] = {}
        for record in (self.written.consumers, self.group.members.records()):
            held = {}
            for member in record:
                for one in member.assigned | member.revoking:
                    assert one not in held, f"{one} is given to {held[one]} and {member.member_id}"
                    held[one] = member.member_id
        there = {member.member_id for member in self.written.consumers}
        owned: dict[tuple[str, int], Reader] = {}
        for reader in self.readers:
            for one in reader.owns if reader.member_id in there else ():  # who is out is not to be helped
                assert one not in owned, f"{one} is owned by {owned[one].member_id} and {reader.member_id}"
                owned[one] = reader

    def become_quiet(self) -> None:
        for _ in range(QUIET_ROUNDS):
            for reader in self.readers:
                self.beat(reader)
                while self.unwritten:
                    self.write_one()
                reader.take_over()
                reader.take_over()
                self.check()
            self.pass_time(0.5)

    def check_quiet(self) -> None:
        joined = [reader for reader in self.readers if reader.epoch > 0]
        wanted = {
            (shape.topic_id, number)
            for name, shape in self.topics.shapes.items()
            if any(_wants(reader, name) for reader in joined)
            for number in range(shape.partitions)
        }
        owned = [one for reader in joined for one in reader.owns]
        assert sorted(owned) == sorted(wanted), "every partition exactly once"
        assert self.group.state == ("Stable" if joined else "Empty")
        writes = self.writes
        for reader in joined:
            reader.says_all = False
            request = reader.request()
            self.apply(self.group.heartbeat(reader, request, Client("c", "h"), self.now))
        assert self.writes == writes, "what changes nothing is not written"


def _wants(reader: Reader, name: str) -> bool:
    return name in reader.topics or (reader.pattern == ".*") or (reader.pattern == "a|c" and name in "ac")


def run(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.check()
    world.become_quiet()
    world.check_quiet()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_partition_has_two_owners_and_each_has_one_in_the_end(seed: int) -> None:
    run(seed)


def test_without_waiting_for_the_old_owner_a_partition_has_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "_is_free", lambda self, partition: True)
    with pytest.raises(AssertionError, match=r"is given to|is owned by"):
        for seed in range(SEEDS):
            run(seed)
