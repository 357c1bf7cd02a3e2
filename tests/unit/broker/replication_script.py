"""Commands that drive a real LeaderState; see tests/cases/replication."""

from ottla.broker.replication.state import Change, Isr, LeaderState
from tests.support.transcripts import Command, listed

LAG_S = 10.0
BROKER = 1


class ReplicationScript:
    """Broker 1 leads. Time stands still unless the script says ``at``."""

    def __init__(self) -> None:
        self.state = LeaderState(BROKER, 0, 0, (), Isr((), 0), 0.0)
        self.end = self.high_watermark = self.start = 0
        self.now = 0.0
        self.min_insync = 1

    def run(self, command: Command) -> list[str]:
        out: list[str] = getattr(self, f"do_{command.name}")(command)
        return out

    def do_lead(self, command: Command) -> list[str]:
        """lead epoch= replicas= isr= [end=] [hw=] [min=] [elr=]: an epoch begins."""
        self.end = int(command.options.get("end", "0"))
        self.start = 0
        self.high_watermark = int(command.options.get("hw", "0"))
        self.min_insync = int(command.options.get("min", "1"))
        isr = Isr(command.numbers("isr"), 7, command.numbers("elr"))
        epoch = int(command.options["epoch"])
        self.state = LeaderState(BROKER, epoch, self.end, command.numbers("replicas"), isr, self.now)
        return self._watermark()

    def do_append(self, command: Command) -> list[str]:
        self.end += int(command.words[0])
        return [f"log end {self.end}", *self._watermark()]

    def do_at(self, command: Command) -> list[str]:
        """at <second>: time goes on."""
        self.now = float(command.words[0])
        return []

    def do_fetch(self, command: Command) -> list[str]:
        """fetch <broker> <offset> [life=<broker epoch>] [start=<where its log begins>]: a follower asks for what comes next."""
        replica, offset = int(command.words[0]), int(command.words[1])
        life = int(command.options.get("life", "1"))
        self.state.fetched(replica, offset, life, self.end, self.now)
        out = self._watermark()
        if "start" in command.options and self.state.begins_at(replica, int(command.options["start"]), life):
            out += self._low_watermark()
        if self.state.may_join(replica, self.high_watermark, self.start):
            out.append(f"broker {replica} may join")
        return out

    def do_join(self, command: Command) -> list[str]:
        replica = int(command.words[0])
        if not self.state.may_join(replica, self.high_watermark, self.start):
            return [f"broker {replica} may not join"]
        return self._asked(self.state.ask_to_join(replica, self.min_insync))

    def do_delete(self, command: Command) -> list[str]:
        """delete <offset>: the leader's log begins there, on its disk."""
        self.start = int(command.words[0])
        return self._low_watermark()

    def do_check(self, command: Command) -> list[str]:
        """Who is behind, as the isr loop looks every now and then."""
        return [f"behind {listed(sorted(self.state.laggards(self.end, self.now, LAG_S)))}"]

    def do_leave(self, command: Command) -> list[str]:
        laggards = self.state.laggards(self.end, self.now, LAG_S)
        return self._asked(self.state.ask_to_leave(laggards, self.min_insync))

    def do_min(self, command: Command) -> list[str]:
        """min <min.insync.replicas>: it is changed."""
        self.min_insync = int(command.words[0])
        outlived = self.state.elr_outlived(self.min_insync)
        return [*self._watermark(), *(["those that are eligible must be forgotten"] if outlived else [])]

    def do_forget(self, command: Command) -> list[str]:
        return self._asked(self.state.ask_to_clear_elr())

    def do_settled(self, command: Command) -> list[str]:
        """settled [isr=] [elr=]: ZooKeeper's truth is known; without an ISR, the change took effect."""
        change = self.state.change
        members = command.numbers("isr") or (change.members if change is not None else ())
        elr = command.numbers("elr") or (change.elr if change is not None else ())
        self.state.settled(Isr(members, self.state.isr.version + 1, elr))
        return self._watermark()

    def _asked(self, change: Change) -> list[str]:
        life = f" of life {change.joining_epoch}" if change.joining is not None else ""
        elr = f" elr {listed(change.elr)}" if change.elr else ""
        return [f"asks for isr {listed(change.members)}{elr}{life}", *self._watermark()]

    def _low_watermark(self) -> list[str]:
        waits_for = self.state.begin_before(self.start)
        behind = f", waiting for {listed(waits_for)}" if waits_for else ""
        return [f"low watermark {self.state.low_watermark(self.start)}{behind}"]

    def _watermark(self) -> list[str]:
        before = self.high_watermark
        self.high_watermark = self.state.committed_end(self.end, self.min_insync, before)
        counted = listed(sorted(self.state.effective_isr))
        moved = f"{before} -> {self.high_watermark}" if before != self.high_watermark else str(before)
        return [f"high watermark {moved}, counting {counted}"]
