"""What all requests and responses have in common; the messages themselves stand in requests.py, admin.py and control.py.

Record bytes are never inside these objects: a request or response that moves records carries them beside it as
*attachments*, one per part in the same order, and each part says how many bytes are its own (``size``).
Fields are sent in the order they are declared; a new field goes at the end, with a default, so that old peers still
understand (they ignore what they do not know, and what they do not send takes the default).
"""

from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from ottla.wire.errors import NO_ERROR, OttlaError, error_for

CONSUMER: Final = -1
"""The replica id of a fetch that no broker sends."""

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Timestamps that ListOffsets takes for "the end", "the beginning" and "the record with the largest timestamp"."""


class Api(IntEnum):
    """What can be asked. Kafka's numbers; ours alone from 1000 on."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_PRODUCERS = 61
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    BROKER_HANDSHAKE = 1000
    WITNESS = 1001
    BEGIN_WRITE = 1002
    END_WRITE = 1003
    PEER_METADATA = 1004
    UNREACHABLE_LEADERS = 1005


class Message(msgspec.Struct, array_like=True, gc=False):
    """Base of everything here: a fixed list of fields."""

    carries_records: ClassVar[bool] = False
    """Whether the message has ``parts`` whose ``size`` bytes travel as attachments."""


class Request(Message):
    """A question. ``api`` and ``versions`` say which one, and in which versions it is understood."""

    api: ClassVar[Api]
    versions: ClassVar[tuple[int, int]] = (0, 0)
    response: ClassVar[type[Message]]


class Failure(Message):
    """A part of a response that may have failed on its own."""

    error_code: int
    error_message: str

    def raise_if_failed(self, **where: str | int | None) -> None:
        if self.error_code != NO_ERROR:
            raise self.error(**where)

    def error(self, **where: str | int | None) -> OttlaError:
        return error_for(self.error_code, self.error_message, **where)


class Done(Message):
    """The answer of a request that has nothing to tell but that it was done."""


class PartitionName(Message):
    topic: str
    partition: int


class ListenerAddress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a listener of a broker is found."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerEndpoint(Message):
    """Where to find a broker: for a client by the listener that it came through, for a broker by the inter-broker one."""

    id: int
    host: str
    port: int
    rack: str | None = None
    listeners: tuple[ListenerAddress, ...] = ()
    """All of them: only brokers tell each other."""
