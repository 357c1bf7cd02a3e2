"""Runs scripts of a group whose coordinator assigns: who is heard of, what it says to own, and what time does to them.

A member's name is its id; it says the epoch that it was told last, unless the script says another one. ``owned=a:0,1`` is all
that it has; without it, nothing is said of that.
"""

from collections.abc import Callable, Iterable

from ottla.broker.groups.consumer_membership import ConsumerGroup, TopicShape
from ottla.broker.groups.consumers import Partitions
from ottla.broker.groups.limits import ConsumerGroupTimes
from ottla.broker.groups.membership import Answer, Client, Effect
from ottla.wire.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions
from ottla.wire.errors import OttlaError, error_for
from ottla.wire.groups import LeaveGroupResponse, LeavingMember
from ottla.zk.znodes.consumers import GroupZnode
from tests.support.transcripts import Command


class ScriptTopics:
    """Topics whose ids are their names with a number: made anew, one has another."""

    def __init__(self) -> None:
        self.shapes: dict[str, TopicShape] = {}

    def shape_of(self, name: str) -> TopicShape | None:
        return self.shapes.get(name)

    def names(self) -> Iterable[str]:
        return list(self.shapes)


class ConsumerGroupScript:
    def __init__(self) -> None:
        self._now = 0.0
        self._topics = ScriptTopics()
        self._made = 0
        self._epochs: dict[str, int] = {}
        self._instances: dict[str, str] = {}
        self._written = GroupZnode()
        self._options = {"max": "10", "bytes": "1000", "session": "10"}
        self._group = self._new_group()

    def _new_group(self) -> ConsumerGroup:
        return ConsumerGroup(
            "g",
            self._make_id,
            self._topics,
            max_size=int(self._options["max"]),
            times=ConsumerGroupTimes(int(float(self._options["session"]) * 1000), 1000),
            max_metadata_bytes=int(self._options["bytes"]),
        )

    def _make_id(self, name: str) -> str:
        self._made += 1
        return f"made-{self._made}"

    def run(self, command: Command) -> list[str]:
        found: list[str] = getattr(self, f"do_{command.name}")(command)
        return found

    # --- commands --------------------------------------------------------------------------------------------------------

    def do_group(self, command: Command) -> list[str]:
        """group max=<members> bytes=<what they may say> session=<s>"""
        self._options |= command.options
        self._group = self._new_group()
        return []

    def do_topic(self, command: Command) -> list[str]:
        """topic <name> <partitions>; 0 deletes it. Made anew with new=yes."""
        name, partitions = command.words
        known = self._topics.shapes.pop(name, None)
        if int(partitions):
            number = known.topic_id if known is not None and "new" not in command.options else f"{name}{len(name)}"
            topic_id = number if "new" not in command.options else f"{number}'"
            self._topics.shapes[name] = TopicShape(topic_id, int(partitions))
        return self._told(self._group.topics_changed())

    def do_join(self, command: Command) -> list[str]:
        """join <name> topics=a,b pattern=<p> assignor=<a> rebalance=<s> as=<instance> id=<another's>; id=none brings none"""
        (name,), options = command.words, command.options
        if "as" in options:
            self._instances[name] = options["as"]
        topics = options.get("topics", "" if "pattern" in options else "a")
        return self._beat(
            name,
            0,
            topics=tuple(topics.split(",")) if topics else (),
            pattern=options.get("pattern"),
            assignor=options.get("assignor"),
            rebalance_timeout_ms=int(float(options.get("rebalance", "60")) * 1000),
            owned=(),
            member_id="" if options.get("id") == "none" else options.get("id"),
            brings_member_id=options.get("id") != "none",
        )

    def do_beat(self, command: Command) -> list[str]:
        """beat <name> epoch=<n> owned=a:0,1/b:2 topics=a,b pattern=<p>; whole=yes says the rebalance timeout too"""
        (name,), options = command.words, command.options
        return self._beat(
            name,
            int(options.get("epoch", self._epochs.get(name, 0))),
            topics=tuple(options["topics"].split(",")) if "topics" in options else None,
            pattern=options.get("pattern"),
            owned=self._parse(options["owned"]) if "owned" in options else None,
            rebalance_timeout_ms=60_000 if "whole" in options else -1,
        )

    def do_leave(self, command: Command) -> list[str]:
        return self._beat(command.words[0], -2 if "away" in command.options else -1)

    def do_remove(self, command: Command) -> list[str]:
        """remove <name>, or remove as=<instance>: what an admin says"""
        one = LeavingMember(command.words[0] if command.words else "", command.options.get("as"))
        return self._told(self._group.remove("admin", [one]))

    def do_commit(self, command: Command) -> list[str]:
        return self._may(command, lambda name, epoch: self._group.check_commit(name, None, epoch, self._now))

    def do_fetch(self, command: Command) -> list[str]:
        return self._may(command, lambda name, epoch: self._group.check_fetch(name or None, epoch))

    def _may(self, command: Command, check: Callable[[str, int], None]) -> list[str]:
        name = command.words[0] if command.words else ""
        try:
            check(name, int(command.options.get("epoch", self._epochs.get(name, -1))))
        except OttlaError as error:
            return [f"refused: {error.wire_name()}"]
        return ["fine"]

    def do_time(self, command: Command) -> list[str]:
        """time +<s>: as the loop does it, at every deadline in between."""
        until = self._now + float(command.words[0])
        out: list[str] = []
        while (deadline := self._group.next_deadline()) is not None and deadline <= until:
            self._now = max(self._now, deadline)
            effects = self._group.tick(self._now)
            assert effects, "a deadline that nothing comes of"
            out += [f"at {self._now:g} s: {line}" for line in self._told(effects)]
        self._now = until
        return out

    def do_takeover(self, command: Command) -> list[str]:
        """Another broker coordinates the group from now on, and knows what was written."""
        self._group = self._new_group()
        self._group.load(GroupZnode.decode("g", self._written.encode()), self._now)
        return self._told(self._group.topics_changed()) + self.do_show(command)

    def do_show(self, command: Command) -> list[str]:
        group = self._group
        out = [f"{group.state}, epoch {group.epoch}, {group.assignor}"]
        for member in group.members:
            revoking = f", revoking {self._shown(member.revoking)}" if member.revoking else ""
            target = f", to have {self._shown(member.target)}" if member.target != member.assigned else ""
            out.append(
                f"  {member.member_id}: {member.state(group.epoch)} in epoch {member.epoch}, "
                f"has {self._shown(member.assigned)}{revoking}{target}"
            )
        return out

    # --- what came of it ---------------------------------------------------------------------------------------------------

    def _beat(self, name: str, epoch: int, member_id: str | None = None, **more: object) -> list[str]:
        request = ConsumerGroupHeartbeatRequest(
            "g", name if member_id is None else member_id, epoch, self._instances.get(name), **more  # type: ignore[arg-type]
        )  # fmt: skip
        return self._told(self._group.heartbeat(name, request, Client("client", "host"), self._now))

    def _told(self, effects: list[Effect]) -> list[str]:
        out = []
        for effect in effects:
            if isinstance(effect, Answer):
                out.append(self._answer(effect))
                continue
            self._written = record = effect.record
            members = ",".join(f"{one.member_id}/{one.epoch}" for one in record.consumers) or "nobody"
            out.append(f"written: epoch {record.generation}, {members}")
            out += [f"  then {self._answer(answer)}" for answer in effect.then]
        return out

    def _answer(self, answer: Answer) -> str:
        name, response = answer.ticket, answer.response
        if isinstance(response, LeaveGroupResponse):
            codes = [one.error_code for one in response.members]
            return f"{name}: " + ", ".join(error_for(code).wire_name() if code else "removed" for code in codes)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert isinstance(name, str)
        if response.error_code:
            return f"{name}: {error_for(response.error_code).wire_name()}"
        self._epochs[name] = response.member_epoch
        called = f" as {response.member_id}" if response.member_id != name else ""
        if response.assignment is None:
            return f"{name}: epoch {response.member_epoch}{called}"
        told = frozenset((topic.topic_id, number) for topic in response.assignment for number in topic.partitions)
        return f"{name}: epoch {response.member_epoch}{called}, {self._shown(told)}"

    def _parse(self, text: str) -> tuple[TopicPartitions, ...]:
        topics = [one.split(":") for one in text.split("/") if one != "nothing"]
        return tuple(
            TopicPartitions(self._topics.shapes[name].topic_id, tuple(map(int, numbers.split(","))))
            for name, numbers in topics
        )

    @staticmethod
    def _shown(partitions: Partitions) -> str:
        by_topic: dict[str, list[str]] = {}
        for topic_id, number in sorted(partitions):
            by_topic.setdefault(topic_id.rstrip("0123456789"), []).append(str(number))
        return "/".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "nothing"
