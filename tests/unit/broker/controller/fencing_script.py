"""Commands that drive a real FenceGuard; see tests/cases/fencing."""

from ottla.broker.controller.decisions.fence_guard import FenceGuard, Verdict, Witnesses
from tests.support.transcripts import Command, listed, numbers


class FencingScript:
    """Time stands still unless a command says ``at=``. A broker that is fenced is registered no more."""

    def __init__(self) -> None:
        self.guard = FenceGuard()
        self.registered: set[int] = set()
        self.now = 0.0

    def run(self, command: Command) -> list[str]:
        self.now = float(command.options.get("at", self.now))
        out: list[str] = getattr(self, f"do_{command.name}")(command)
        return out

    def do_brokers(self, command: Command) -> list[str]:
        """brokers <ids>: these are registered now."""
        self.registered = set(numbers(command.words[0]))
        return []

    def do_reached(self, command: Command) -> list[str]:
        """reached <ids>: links have found these."""
        for broker in numbers(command.words[0]):
            self.guard.reached(broker)
        return []

    def do_away(self, command: Command) -> list[str]:
        """away: those that were fenced as silent and have not been reached since."""
        return [f"away: {listed([broker for broker in range(10) if self.guard.is_away(broker)])}"]

    def do_lost(self, command: Command) -> list[str]:
        """lost <ids> refused|unreachable [never-reached] [alive=] [dead=] [at=]: links report these at once.

        ``alive`` and ``dead`` are what each of those who can be asked says about every one of them.
        """
        ids, refused = numbers(command.words[0]), command.words[1] == "refused"
        for broker in ids:
            self.guard.suspected(broker, self.now)
        return [self._decide(broker, refused, command) for broker in ids]

    def _decide(self, broker: int, refused: bool, command: Command) -> str:
        heard = Witnesses()
        asked = self.guard.needs_witnesses(refused=refused, registered=self.registered, now=self.now)
        if asked:
            heard = Witnesses(len(command.numbers("alive")), len(command.numbers("dead")))
        reached = "never-reached" not in command.words
        verdict = self.guard.verdict(
            broker, heard, refused=refused, reached=reached, registered=self.registered, now=self.now
        )
        if verdict is Verdict.FENCE:
            self.registered.discard(broker)
        return f"{broker}: {verdict.value}{', witnesses asked' if asked else ''}"
