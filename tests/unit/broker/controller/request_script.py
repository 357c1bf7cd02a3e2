"""Commands for what clients ask of a controller; see tests/cases/controller."""

from collections.abc import Callable

from ottla.broker.controller.decisions.actions import Action
from ottla.wire.admin import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    ElectionType,
    NewPartitions,
    NewTopic,
)
from ottla.wire.errors import OttlaError
from tests.support.transcripts import Command, listed, numbers
from tests.unit.broker.controller.controller_script import ControllerScript, partition


class RequestScript(ControllerScript):
    """All that a ControllerScript understands, and requests: refused, or carried out at once but for states."""

    def do_create_topic(self, command: Command) -> list[str]:
        """create_topic <name> [partitions=] [factor=] [on=<replicas>;<replicas>] [id=] [<setting>=<value>]"""
        options = dict(command.options)
        on, topic_id = options.pop("on", None), options.pop("id", "")
        assignment = [list(numbers(text)) for text in on.split(";")] if on is not None else None
        count, factor = int(options.pop("partitions", "1")), int(options.pop("factor", "1"))
        new = NewTopic(command.words[0], count, factor, options, assignment, topic_id)
        made_up = f"id-of-{new.name}" if new.name not in self.topics else "another-id"
        return self._asked(lambda: self.controller.requests.create_topic(new, topic_id or made_up))

    def do_delete_topic(self, command: Command) -> list[str]:
        """delete_topic <name> [id=]"""
        name, topic_id = command.words[0], command.options.get("id", "")
        return self._asked(lambda: self.controller.requests.delete_topic(name, topic_id))

    def do_create_partitions(self, command: Command) -> list[str]:
        """create_partitions <topic> <count> [on=<replicas>;<replicas>]"""
        on = command.options.get("on")
        assignment = [list(numbers(text)) for text in on.split(";")] if on is not None else None
        new = NewPartitions(command.words[0], int(command.words[1]), assignment)
        return self._asked(lambda: self.controller.requests.create_partitions(new))

    def do_alter_config(self, command: Command) -> list[str]:
        """alter_config <topic> [<setting>=<value>]: an empty value takes the setting away."""
        return self._alter(TOPIC_RESOURCE, command.words[0], command)

    def do_alter_broker(self, command: Command) -> list[str]:
        """alter_broker <id>|all [<setting>=<value>]: the same for a broker, or for all of them."""
        return self._alter(BROKER_RESOURCE, "" if command.words[0] == "all" else command.words[0], command)

    def _alter(self, resource_type: int, name: str, command: Command) -> list[str]:
        changes = [
            ConfigChange(key, ConfigOperation.SET if value else ConfigOperation.DELETE, value or None)
            for key, value in command.options.items()
        ]
        altered = ConfigAlteration(resource_type, name, changes)
        return self._asked(lambda: self.controller.requests.alter_config(altered))

    def do_move(self, command: Command) -> list[str]:
        """move <topic>-<partition> <replicas>|back: give a partition other replicas, or call that off."""
        where, target = partition(command.words[0]), command.words[1]
        replicas = numbers(target) if target != "back" else None
        return self._asked(lambda: self.controller.requests.reassign(where, replicas))

    def do_elect(self, command: Command) -> list[str]:
        """elect preferred|unclean [<topic>-<partition> ...]: what is answered, after a look at what is written at once."""
        election = ElectionType[command.words[0].upper()]
        wanted = [partition(word) for word in command.words[1:]] or None
        results = self.controller.elections_needed(election, wanted)
        elect = (
            self.controller.unclean_leaders if election is ElectionType.UNCLEAN else self.controller.preferred_leaders
        )
        lines = self.show(elect(wanted))
        while self.waiting:
            lines += self.do_write(Command("write", [], {}))
        results = self.controller.elections_held(election, results)
        return lines + [f"{where}: {_refusal(error) if error else 'elected'}" for where, error in results.items()]

    def do_moves(self, command: Command) -> list[str]:
        """moves: what is under way."""
        return [
            f"{m.topic}-{m.partition} on {listed(m.replicas)} (come {listed(m.adding)}, go {listed(m.removing)})"
            for m in self.controller.requests.reassignments(None)
        ]

    def _asked(self, decide: Callable[[], list[Action]]) -> list[str]:
        try:
            actions = decide()
        except OttlaError as error:
            return [f"refused, {_refusal(error)}"]
        return self.show(actions)


def _refusal(error: OttlaError) -> str:
    return f"{error.wire_name()}: {error}"
