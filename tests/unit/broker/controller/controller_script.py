"""Commands that drive a real ControllerState against a ZooKeeper of dictionaries; see tests/cases/controller."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.broker.controller.decisions.actions import (
    Action,
    CreatePartitions,
    CreateTopic,
    MarkForDeletion,
    ReadAgain,
    RemoveTopic,
    Tell,
    TellReplicas,
    WriteBrokerConfig,
    WriteConfig,
    WriteGroupConfig,
    WriteStates,
    WriteTopic,
    caused_by,
)
from ottla.broker.controller.decisions.cluster import Broker
from ottla.broker.controller.decisions.placement import place
from ottla.broker.controller.decisions.state import ControllerState
from ottla.wire.control import LeaderAndIsrRequest, Order, PartitionState, StopReplicaRequest, UpdateMetadataRequest
from ottla.wire.errors import OttlaError, StaleBrokerEpoch
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.names import TopicPartition
from ottla.zk.errors import BadVersion, ConnectionLost, ZkUnavailable
from ottla.zk.metadata import LoadedTopic, PartitionStateChange, VersionedState
from ottla.zk.znodes.brokers import DataState
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode
from tests.support.transcripts import Command, listed, numbers

TAKEN_BUT_LOST = "TakenButLost"
"""The write took effect, and the connection broke before the answer came."""

ERRORS: dict[str, type[OttlaError]] = {
    "ZkUnavailable": ZkUnavailable,
    "BadVersion": BadVersion,
    "ConnectionLost": ConnectionLost,
    "StaleBrokerEpoch": StaleBrokerEpoch,
    TAKEN_BUT_LOST: ConnectionLost,
}


SILENT = ("topic", "state", "place", "works")
"""What changes ZooKeeper behind the controller's back, or leads to nothing."""

MARKS = {"!": DataState.TAIL_SUSPECT, "?": DataState.LOST}


class ControllerScript:
    """Writes wait until the script says ``write``; everything else is only shown."""

    def __init__(self) -> None:
        self.controller = ControllerState(controller_id=9, controller_epoch=3)
        self.topics: dict[str, LoadedTopic] = {}
        self.waiting: list[WriteStates] = []
        self.registered: dict[int, int] = {}
        self.cause = ""
        self.events = 0
        self.reads: dict[str, str] = {}
        """The topics that are to be read again, and why."""

    def run(self, command: Command) -> list[str]:
        """Every command is an event with an id of its own, but for those that go on with what an earlier one led to."""
        if command.name == "read" and command.words[0] in self.reads:
            self.cause = self.reads.pop(command.words[0])
        elif command.name not in ("write", *SILENT):
            self.events += 1
            self.cause = f"3-{self.events}"
        return list(getattr(self, f"do_{command.name}")(command))

    # --- ZooKeeper -------------------------------------------------------------------------------------------------------

    def do_topic(self, command: Command) -> list[str]:
        """topic <name> <replicas> ... [min=] [unclean=true] [elected=<epoch>] [stateless=<partitions>]: created, all in sync.

        ``min`` is min.insync.replicas. ``elected`` is the broker epoch of the leaders, 1 if it is not given, -1 for a state
        that does not have it. ``stateless`` partitions have no state, as while the topic's znodes are being removed.
        """
        name, *assignment = command.words
        replicas = {number: numbers(text) for number, text in enumerate(assignment)}
        elected = int(command.options.get("elected", 1))
        stateless = command.numbers("stateless")
        states = {
            p: VersionedState(PartitionStateZnode(r[0], 0, 1, r, leader_broker_epoch=elected), 0)
            for p, r in replicas.items()
            if p not in stateless
        }
        settings = {"min": "min.insync.replicas", "unclean": "unclean.leader.election.enable"}
        config = {settings[key]: value for key, value in command.options.items() if key in settings}
        self.topics[name] = LoadedTopic(name, TopicZnode(replicas, f"id-of-{name}"), 0, config, states)
        return []

    def do_state(self, command: Command) -> list[str]:
        """state <topic>-<partition> [leader=] [isr=] [elr=] [elected=]: somebody, as a rule the leader, writes the state."""
        where = partition(command.words[0])
        loaded = self.topics[where.topic]
        old = loaded.states[where.partition]
        state = replace(
            old.state,
            leader=int(command.options.get("leader", old.state.leader)),
            isr=command.numbers("isr") or old.state.isr,
            elr=command.numbers("elr") or old.state.elr,
            leader_broker_epoch=int(command.options.get("elected", old.state.leader_broker_epoch)),
        )
        self._store(where, VersionedState(state, old.version + 1))
        return []

    def _store(self, where: TopicPartition, state: VersionedState) -> None:
        loaded = self.topics[where.topic]
        self.topics[where.topic] = replace(loaded, states={**loaded.states, where.partition: state})

    # --- events ----------------------------------------------------------------------------------------------------------

    def do_load(self, command: Command) -> list[str]:
        """load <broker>@<epoch>[!|?][+][~<topic>-<partition>] ... [deleting=<topic>]: a term begins.

        ``!`` marks a broker that may have lost its tail, ``?`` one that lost its log, ``~`` one that lost that partition's
        log only, ``+`` that a controller has acted on it.
        """
        self.controller = ControllerState(controller_id=9, controller_epoch=3)
        deleting = [name for name in command.options.get("deleting", "").split(",") if name]
        return self.show(self.controller.loaded(self._register(command.words), self.topics.values(), deleting))

    def do_brokers(self, command: Command) -> list[str]:
        """brokers <broker>@<epoch>[!|?][+] ...: these are registered now."""
        return self.show(self.controller.brokers_seen(self._register(command.words)))

    def do_write(self, command: Command) -> list[str]:
        """write [<topic>-<partition>=<error>]: carry out the oldest write that waits, as ZooKeeper would."""
        action = self.waiting.pop(0)
        changes, self.cause = action.changes, action.cause
        results: dict[TopicPartition, int | OttlaError] = {}
        for change in changes:
            if str(change.partition) in command.options:
                error = command.options[str(change.partition)]
                if error == TAKEN_BUT_LOST:
                    self._compare_and_set(change)
                results[change.partition] = ERRORS[error]("as the script says")
            else:
                results[change.partition] = self._compare_and_set(change)
        lines = [f"{where}: {_result(result)}" for where, result in results.items()]
        return lines + self.show(self.controller.states_written(changes, results))

    def _register(self, words: list[str]) -> dict[int, Broker]:
        brokers = _brokers(words)
        self.registered = {i: broker.epoch for i, broker in brokers.items()}
        return brokers

    def _compare_and_set(self, change: PartitionStateChange) -> int | OttlaError:
        if any(self.registered.get(broker) != epoch for broker, epoch in change.broker_epochs.items()):
            return StaleBrokerEpoch("a broker that the change relies on has a new life")
        if self.topics[change.partition.topic].states[change.partition.partition].version != change.version:
            return BadVersion("somebody else wrote")
        self._store(change.partition, VersionedState(change.state, change.version + 1))
        return change.version + 1

    def do_read(self, command: Command) -> list[str]:
        return self.show(self.controller.topic_read(self.topics[command.words[0]]))

    def do_look(self, command: Command) -> list[str]:
        """look [<topic>-<partition> ...]: of those, or of all, read what another than the preferred replica leads."""
        wanted = [partition(word) for word in command.words] or None
        found = {
            where: self.topics[where.topic].states[where.partition] for where in self.controller.not_preferred(wanted)
        }
        return [f"read {where}" for where in found] + self.show(self.controller.states_read(found))

    def do_created(self, command: Command) -> list[str]:
        return self.show(self.controller.topic_created(self.topics[command.words[0]]))

    def do_delete(self, command: Command) -> list[str]:
        return self.show(self.controller.deletions_seen(command.words))

    def do_deleted(self, command: Command) -> list[str]:
        """deleted <topic>[-<partition>] <broker>: the broker has deleted its replicas, or that one."""
        name, broker = command.words[0], int(command.words[1])
        topic = self.controller.topics.get(name)
        deleted = [TopicPartition(name, number) for number in topic.held_by(broker)] if topic else [partition(name)]
        return self.show(self.controller.replicas_deleted(broker, deleted))

    def do_removed(self, command: Command) -> list[str]:
        return self.show(self.controller.topic_removed(command.words[0]))

    def do_behind(self, command: Command) -> list[str]:
        """behind <broker>: it did not take its orders, and they were dropped."""
        return self.show(self.controller.broker_is_behind(int(command.words[0])))

    def do_leaves(self, command: Command) -> list[str]:
        return self.show(self.controller.broker_shuts_down(int(command.words[0])))

    def do_failed(self, command: Command) -> list[str]:
        broker, *names = command.words
        return self.show(self.controller.replicas_failed(int(broker), [partition(name) for name in names]))

    def do_damaged(self, command: Command) -> list[str]:
        """damaged <broker> <topic>-<partition> ...: the broker found a damaged batch in its own log of these."""
        broker, *names = command.words
        return self.show(self.controller.replicas_damaged(int(broker), [partition(name) for name in names]))

    def do_unreachable(self, command: Command) -> list[str]:
        """unreachable <leader> <brokers>: these say that they do not reach the leader."""
        return self.show(self.controller.leader_unreachable(int(command.words[0]), numbers(command.words[1])))

    def do_works(self, command: Command) -> list[str]:
        """works <broker> <topic>-<partition> ...: the broker leads or follows these as it was told."""
        broker, *names = command.words
        self.controller.replicas_work(int(broker), [partition(name) for name in names])
        return []

    def do_preferred(self, command: Command) -> list[str]:
        return self.show(self.controller.preferred_leaders())

    def do_unclean(self, command: Command) -> list[str]:
        """unclean [<topic>-<partition> ...]: an operator takes whoever lives."""
        return self.show(self.controller.unclean_leaders([partition(word) for word in command.words] or None))

    def do_place(self, command: Command) -> list[str]:
        """place <partitions> <replication factor> <broker>:<rack> ..."""
        partitions, factor, *brokers = command.words
        racks = {int(broker): rack for broker, rack in (text.split(":") for text in brokers)}
        placed = place(int(partitions), int(factor), racks)
        lines = [f"{p}: {listed(r)} in racks {','.join(racks[b] for b in r)}" for p, r in enumerate(placed)]
        for broker in sorted(racks):
            held, led = sum(broker in r for r in placed), sum(r[0] == broker for r in placed)
            lines.append(f"broker {broker}: {held} replicas, leads {led}")
        return lines

    # --- actions ---------------------------------------------------------------------------------------------------------

    def show(self, actions: list[Action]) -> list[str]:
        """What is to be done; all but states is written at once."""
        lines: list[str] = []
        for action in caused_by(self.cause, actions):
            if isinstance(action, WriteStates):
                self.waiting.append(action)
                lines += [f"write {_change(change)} [{action.cause}]" for change in action.changes]
            elif isinstance(action, Tell):
                assert action.request.cause == action.cause
                lines.append(_told(action.broker, action.request, action.cause))
            elif isinstance(action, TellReplicas):
                request = self.controller.leader_and_isr(action.broker, action.partitions)
                lines += [_told(action.broker, request, action.cause)] if request is not None else []
            elif isinstance(action, RemoveTopic):
                lines.append(f"remove {action.name} [{action.cause}]")
            elif isinstance(action, WriteGroupConfig):
                lines.append(f"settings of group {action.name}:{_pairs(action.config)} [{action.cause}]")
            elif isinstance(action, WriteBrokerConfig):
                lines.append(f"settings of broker {action.name or '<all>'}:{_pairs(action.config)} [{action.cause}]")
                lines += self.show(self.controller.broker_config_changed(action.name, action.config))
            elif isinstance(action, ReadAgain):
                self.reads[action.name] = action.cause
                lines.append(f"read {action.name} again [{action.cause}]")
            else:
                lines += self._write(action)
        return lines

    def _write(self, action: CreateTopic | CreatePartitions | WriteConfig | WriteTopic | MarkForDeletion) -> list[str]:
        name, controller, cause = action.name, self.controller, f"[{action.cause}]"
        if isinstance(action, CreateTopic):
            self.topics[name] = LoadedTopic(name, action.topic, 0, action.config, _first(action.states))
            settings = "".join(f" {key}={value}" for key, value in action.config.items())
            return [
                f"create {name}: {_assignment(action.topic)}{settings} {cause}",
                *self.show(controller.topic_created(self.topics[name])),
            ]
        loaded = self.topics[name]
        if isinstance(action, CreatePartitions):
            states = {**loaded.states, **_first(action.states)}
            self.topics[name] = replace(loaded, topic=action.topic, version=loaded.version + 1, states=states)
            new = {partition: action.topic.partitions[partition] for partition in action.states}
            return [
                f"add to {name}: {_assignment(TopicZnode(new))} {cause}",
                *self.show(controller.partitions_created(self.topics[name])),
            ]
        if isinstance(action, WriteConfig):
            self.topics[name] = replace(loaded, config=action.config)
            settings = "".join(f" {key}={value}" for key, value in action.config.items()) or " none"
            return [
                f"settings of {name}:{settings} {cause}",
                *self.show(controller.config_changed(name, action.config)),
            ]
        if isinstance(action, MarkForDeletion):
            return [f"mark {name} for deletion {cause}", *self.show(controller.deletions_seen([name]))]
        topic = controller.topics[name]
        self.topics[name] = replace(loaded, topic=topic.znode(), version=topic.version + 1)
        line = f"write {name}: {_assignment(topic.znode())}, if version {topic.version} {cause}"
        return [line, *self.show(controller.topic_written(name, topic.version + 1))]


def _pairs(config: Mapping[str, str]) -> str:
    return "".join(f" {key}={value}" for key, value in config.items()) or " none"


def _first(states: Mapping[int, PartitionStateZnode]) -> dict[int, VersionedState]:
    return {partition: VersionedState(state, 0) for partition, state in states.items()}


def partition(text: str) -> TopicPartition:
    topic, partition = text.rsplit("-", 1)
    return TopicPartition(topic, int(partition))


def _brokers(words: list[str]) -> dict[int, Broker]:
    found = {}
    for word in words:
        word, *lost = word.split("~")
        broker, epoch = word.rstrip("".join(MARKS) + "+").split("@")
        data = next((data for mark, data in MARKS.items() if mark in word), DataState.WHOLE)
        endpoint = BrokerEndpoint(int(broker), "host", 9092)
        found[int(broker)] = Broker(
            endpoint, int(epoch), data, word.endswith("+"), frozenset(partition(name) for name in lost)
        )
    return found


def _assignment(topic: TopicZnode) -> str:
    told = []
    for partition, replicas in topic.partitions.items():
        comes, goes = topic.adding_replicas.get(partition, ()), topic.removing_replicas.get(partition, ())
        moves = f" (come {listed(comes)}, go {listed(goes)})" if comes or goes else ""
        told.append(f"{partition} on {listed(replicas)}{moves}")
    return "; ".join(told)


def _result(result: int | OttlaError) -> str:
    return f"version {result}" if isinstance(result, int) else type(result).__name__


def _change(change: PartitionStateChange) -> str:
    state = change.state
    elr = f" elr {listed(state.elr)}" if state.elr else ""
    lives = "".join(f" and {broker}@{epoch} lives" for broker, epoch in change.broker_epochs.items())
    lost = f" lost {listed(state.lost)}" if state.lost else ""
    what = f"leader {state.leader} epoch {state.leader_epoch} isr {listed(state.isr)}{elr}{lost}"
    return f"{change.partition}: {what}, if version {change.version}{lives}"


def _states(states: list[PartitionState]) -> str:
    told = [
        f"{s.topic}-{s.partition} leader {s.leader} epoch {s.leader_epoch} isr {listed(s.isr)} version {s.version}"
        for s in states
    ]
    return "; ".join(told)


def _told(broker: int, request: Order, cause: str) -> str:
    return f"tell {broker}@{request.broker_epoch} {_order(request)} [{cause}]"


def _order(request: Order) -> str:
    if isinstance(request, LeaderAndIsrRequest):
        return f"leader_and_isr {_states(request.partitions)}"
    if isinstance(request, StopReplicaRequest):
        parts = [f"{part.topic}-{part.partition}" + (" delete" if part.delete else "") for part in request.parts]
        return f"stop_replica {'; '.join(parts)}"
    assert isinstance(request, UpdateMetadataRequest)
    words = ["metadata", "full" if request.full else "", f"live {listed([b.id for b in request.brokers])}"]
    words += [f"settings of {told.broker or '<all>'}:{_pairs(told.config)}" for told in request.settings]
    words += [_states(request.partitions), f"gone {','.join(request.deleted)}" if request.deleted else ""]
    return " ".join(word for word in words if word)
