"""Runs scripts of a group: who joins, syncs, is heard of and leaves, and what time does to them.

A member's name is its client id, or its instance id; the script remembers the member id that it was given. With ``id=none``, or
another id, a member says that it has another one.
"""

from typing import Any

from ottla.broker.groups.membership import Answer, Client, Effect, Group
from ottla.wire.errors import OttlaError, error_for
from ottla.wire.groups import (
    GroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.zk.znodes.consumers import GroupZnode
from tests.support.transcripts import Command


class GroupScript:
    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = 0
        self._ids: dict[str, str] = {}
        self._instances: dict[str, str] = {}
        self._written = GroupZnode()
        self._group = self._new_group()

    def _new_group(self, **options: Any) -> Group:
        return Group("g", self._make_id, **{"max_size": 4, **options})

    def _make_id(self, name: str) -> str:
        self._numbers += 1
        return f"{name}-{self._numbers}"

    def run(self, command: Command) -> list[str]:
        found: list[str] = getattr(self, f"do_{command.name}")(command)
        return found

    # --- commands --------------------------------------------------------------------------------------------------------

    def do_group(self, command: Command) -> list[str]:
        options = command.options
        self._group = self._new_group(
            max_size=int(options.get("max", "4")), initial_delay_s=float(options.get("delay", "0"))
        )
        return []

    def do_join(self, command: Command) -> list[str]:
        """join <name> protocols=range,sticky session=<s> rebalance=<s> about=<metadata>; static=yes for a static member."""
        (name,), options = command.words, command.options
        instance = name if options.get("static") else None
        if instance is not None:
            self._instances[name] = instance
        about = options.get("about", name).encode()
        request = JoinGroupRequest(
            "g",
            int(float(options.get("session", "10")) * 1000),
            int(float(options.get("rebalance", "60")) * 1000),
            self._id(name, options, "" if instance is not None else None),
            instance,
            options.get("type", "consumer"),
            [GroupProtocol(each, about) for each in options.get("protocols", "range").split(",") if each],
        )
        return self._told(self._group.join((name, "join"), request, Client(name, "host"), self._now))

    def do_sync(self, command: Command) -> list[str]:
        """sync <name> gen=<n> assign=<name>:<what>,..."""
        (name,), options = command.words, command.options
        given = [each.split(":") for each in options.get("assign", "").split(",") if each]
        request = SyncGroupRequest(
            "g", int(options["gen"]), self._id(name, options), self._instances.get(name), "consumer",
            options.get("protocol", ""), [MemberAssignment(self._ids[who], what.encode()) for who, what in given],
        )  # fmt: skip
        return self._told(self._group.sync((name, "sync"), request, self._now))

    def do_beat(self, command: Command) -> list[str]:
        (name,), options = command.words, command.options
        error = self._group.heartbeat(
            self._id(name, options), self._instances.get(name), int(options["gen"]), self._now
        )
        return [f"{name}: {error.wire_name() if error is not None else 'fine'}"]

    def do_leave(self, command: Command) -> list[str]:
        leaving = [LeavingMember(self._id(name, command.options), self._instances.get(name)) for name in command.words]
        left, effects = self._group.leave(leaving, self._now)
        results = zip(command.words, left, strict=True)
        return [f"{name} {_result(one.error_code) or 'left'}" for name, one in results] + self._told(effects)

    def do_commit(self, command: Command) -> list[str]:
        options = command.options
        name = command.words[0] if command.words else ""
        member_id = self._id(name, options) if name else ""
        try:
            self._group.check_commit(member_id, self._instances.get(name), int(options.get("gen", "-1")), self._now)
        except OttlaError as error:
            return [f"refused: {error.wire_name()}"]
        return ["may commit"]

    def do_gone(self, command: Command) -> list[str]:
        """Whoever waited under this name has hung up."""
        for kind in ("join", "sync"):
            self._group.forget(next((t for t in self._tickets() if t == (command.words[0], kind)), None))
        return []

    def do_time(self, command: Command) -> list[str]:
        """time +<s>: as the loop does it, at every deadline in between."""
        until = self._now + float(command.words[0])
        out: list[str] = []
        while (deadline := self._group.next_deadline()) is not None and deadline <= until:
            self._now = max(self._now, deadline)
            effects = self._group.tick(self._now)
            out += [f"at {self._now:g} s: {line}" for line in self._told(effects)]
            again = self._group.next_deadline()
            if again is not None and again <= self._now and not effects:
                raise AssertionError("a deadline that nothing comes of")
        self._now = until
        return out

    def do_takeover(self, command: Command) -> list[str]:
        """Another broker coordinates the group from now on, and knows what was written."""
        self._group = self._new_group()
        self._group.load(self._written, self._now)
        return self.do_show(command)

    def do_show(self, command: Command) -> list[str]:
        group = self._group
        names = ",".join(self._name(member.member_id) for member in group.members) or "nobody"
        return [f"{group.state}, generation {group.generation}, leader {self._name(group.leader)}, members {names}"]

    # --- what came of it ---------------------------------------------------------------------------------------------------

    def _tickets(self) -> list[object]:
        return [t for member in self._group.members for t in (member.joining, member.syncing) if t is not None]

    def _id(self, name: str, options: dict[str, str], default: str | None = None) -> str:
        if "id" in options:
            return "" if options["id"] == "none" else options["id"]
        return self._ids.get(name, "") if default is None else default

    def _name(self, member_id: str) -> str:
        return next((name for name, known in self._ids.items() if known == member_id), member_id or "nobody")

    def _told(self, effects: list[Effect]) -> list[str]:
        out = []
        for effect in effects:
            if isinstance(effect, Answer):
                out.append(self._answer(effect))
                continue
            self._written = record = effect.record
            answers = [self._answer(answer) for answer in effect.then]  # first: they tell the members' ids
            members = ",".join(self._name(member.member_id) for member in record.members) or "nobody"
            assigned = "assigned" if record.assigned else "not assigned"
            out.append(
                f"written: generation {record.generation}, {record.protocol or 'no protocol'}, {members}, {assigned}"
            )
            out += [f"  then {answer}" for answer in answers]
        return out

    def _answer(self, answer: Answer) -> str:
        assert isinstance(answer.ticket, tuple)
        name, kind = answer.ticket
        response = answer.response
        if isinstance(response, JoinGroupResponse):
            if response.member_id and (not response.error_code or response.error_code == 79):
                self._ids[name] = response.member_id
            if response.error_code:
                return f"{name} {kind}: {_result(response.error_code)}"
            members = ",".join(self._name(member.member_id) for member in response.members)
            leads = f"leads {members}" if members else f"follows {self._name(response.leader)}"
            skip = ", need not assign" if response.skip_assignment else ""
            return f"{name} is in generation {response.generation_id} as {response.member_id}, {leads}{skip}"
        assert isinstance(response, SyncGroupResponse)
        return f"{name} {kind}: {_result(response.error_code) or response.assignment.decode() or 'nothing'}"


def _result(code: int) -> str:
    return error_for(code).wire_name() if code else ""
