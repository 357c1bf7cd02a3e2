"""The numbered table of everything that can go wrong between a client and a broker.

Codes are Kafka's. A handler raises one of these classes and dispatch answers with its code, once; the client raises the
same class on its side. Two flags tell a client what to do: ``retriable`` (the same request may succeed later) and
``refresh_metadata`` (ask who leads before trying again).
"""

from typing import ClassVar, Final

NO_ERROR: Final = 0


class OttlaError(Exception):
    """Base of all errors of this package; ``hint`` says what to do about it."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message or first_line(type(self)))
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self.hint = hint

    def __init_subclass__(
        cls,
        code: int | None = None,
        retriable: bool = False,
        refresh_metadata: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.retriable = retriable or cls.retriable
        cls.refresh_metadata = refresh_metadata
        if code is not None:
            cls.code = code
            assert code not in ERRORS, f"error code {code} stands twice in the table"
            ERRORS[code] = cls

    @classmethod
    def wire_name(cls) -> str:
        """The error's name as Kafka's documentation spells it: NOT_LEADER_OR_FOLLOWER."""
        name = cls.__name__
        return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


ERRORS: dict[int, type[OttlaError]] = {}
"""Every error that has a number, by number."""


def first_line(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


def error_for(code: int, message: str = "", **where: str | int | None) -> OttlaError:
    """The exception for a code that came over the wire."""
    cls = ERRORS.get(code, UnknownServerError)
    if cls is UnknownServerError and code != UnknownServerError.code:
        message = f"error code {code}: {message}" if message else f"error code {code}, which this version does not know"
    return cls(message, **where)  # type: ignore[arg-type]


# --- what a broker answers ---------------------------------------------------------------------------------------------


class UnknownServerError(OttlaError, code=-1):
    """The broker failed in a way that it did not foresee; its log has the details."""


class OffsetOutOfRange(OttlaError, code=1):
    """The requested offset is not in the log."""


class CorruptMessage(OttlaError, code=2):
    """A record batch is damaged or does not describe itself truthfully."""


class UnknownTopicOrPartition(OttlaError, code=3, retriable=True, refresh_metadata=True):
    """This broker knows no such topic or partition."""


class LeaderNotAvailable(OttlaError, code=5, retriable=True, refresh_metadata=True):
    """The partition has no leader at the moment."""


class NotLeaderOrFollower(OttlaError, code=6, retriable=True, refresh_metadata=True):
    """Another broker leads this partition."""


class RequestTimedOut(OttlaError, code=7, retriable=True):
    """The request did not finish within its time; whether it took effect is unknown."""


class BrokerNotAvailable(OttlaError, code=8, retriable=True, refresh_metadata=True):
    """The broker is not available."""


class ReplicaNotAvailable(OttlaError, code=9, retriable=True, refresh_metadata=True):
    """The replica is not on this broker."""


class MessageTooLarge(OttlaError, code=10):
    """A record batch is larger than the topic's max.message.bytes."""


class StaleControllerEpoch(OttlaError, code=11):
    """The request comes from a controller that has been replaced."""


class OffsetMetadataTooLarge(OttlaError, code=12):
    """The text beside a committed offset is too long."""


class NetworkException(OttlaError, code=13, retriable=True, refresh_metadata=True):
    """The connection closed before the answer came; whether the request took effect is unknown."""


class CoordinatorLoadInProgress(OttlaError, code=14, retriable=True):
    """The coordinator is reading what it must know of the group."""


class CoordinatorNotAvailable(OttlaError, code=15, retriable=True):
    """The group has no coordinator at the moment."""


class NotCoordinator(OttlaError, code=16, retriable=True):
    """Another broker coordinates this group."""


class InvalidTopic(OttlaError, code=17):
    """The topic name is not a legal one."""


class RecordListTooLarge(OttlaError, code=18):
    """The request holds more record bytes than a segment can."""


class NotEnoughReplicas(OttlaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""


class NotEnoughReplicasAfterAppend(OttlaError, code=20, retriable=True):
    """The records were written, but to fewer in-sync replicas than min.insync.replicas asks for."""


class InvalidRequiredAcks(OttlaError, code=21):
    """acks must be 0, 1 or -1 (all)."""


class IllegalGeneration(OttlaError, code=22):
    """The group is in another generation by now."""


class InconsistentGroupProtocol(OttlaError, code=23):
    """The member has no assignor, or kind of group, in common with the others."""


class InvalidGroupId(OttlaError, code=24):
    """The group id is not a legal one."""


class UnknownMemberId(OttlaError, code=25):
    """The group has no such member (any more)."""


class InvalidSessionTimeout(OttlaError, code=26):
    """The session timeout is out of the range that the broker allows."""


class RebalanceInProgress(OttlaError, code=27):
    """The group is about to begin its next generation: join it again."""


class ClusterAuthorizationFailed(OttlaError, code=31):
    """Only brokers of this cluster may send this request."""


class InvalidTimestamp(OttlaError, code=32):
    """A record's timestamp is out of the allowed range."""


class UnsupportedVersion(OttlaError, code=35):
    """The broker does not speak this version of the request."""


class TopicAlreadyExists(OttlaError, code=36):
    """A topic of this name exists."""


class InvalidPartitions(OttlaError, code=37):
    """The number of partitions is not allowed."""


class InvalidReplicationFactor(OttlaError, code=38):
    """The replication factor is below 1 or larger than the number of brokers."""


class InvalidReplicaAssignment(OttlaError, code=39):
    """The replica assignment names unknown or repeated brokers."""


class InvalidConfig(OttlaError, code=40):
    """A configuration value is not allowed."""


class NotController(OttlaError, code=41, retriable=True, refresh_metadata=True):
    """This broker is not the controller."""


class InvalidRequest(OttlaError, code=42):
    """The request contradicts itself or has a value out of range."""


class UnsupportedForMessageFormat(OttlaError, code=43):
    """The record batch is of a format that this broker does not store."""


class PolicyViolation(OttlaError, code=44):
    """The request asks for more than this cluster's limits allow."""


class OutOfOrderSequenceNumber(OttlaError, code=45):
    """A batch of this producer is missing before this one."""


class DuplicateSequenceNumber(OttlaError, code=46):
    """A batch of this producer comes again, so late that where it went is forgotten."""


class InvalidProducerEpoch(OttlaError, code=47):
    """A newer producer with the same id has taken over."""


class StorageError(OttlaError, code=56, retriable=True, refresh_metadata=True):
    """The disk under this partition failed; the broker serves it no more until it is restarted."""


class UnknownProducerId(OttlaError, code=59):
    """The partition knows nothing of this producer id."""


class NonEmptyGroup(OttlaError, code=68):
    """The group has members."""


class GroupIdNotFound(OttlaError, code=69):
    """There is no such group."""


class FetchSessionIdNotFound(OttlaError, code=70, retriable=True):
    """The broker does not know what was fetched over this connection before: begin anew."""


class FencedLeaderEpoch(OttlaError, code=74, retriable=True, refresh_metadata=True):
    """The request names an older leader epoch than the current one."""


class UnknownLeaderEpoch(OttlaError, code=75, retriable=True, refresh_metadata=True):
    """The request names a newer leader epoch than this broker knows."""


class UnsupportedCompressionType(OttlaError, code=76):
    """The record batch names a compression codec that this version does not know."""


class StaleBrokerEpoch(OttlaError, code=77):
    """The request was meant for, or sent by, an earlier life of the broker."""


class PreferredLeaderNotAvailable(LeaderNotAvailable, code=80, retriable=True, refresh_metadata=True):
    """The preferred leader does not live or is not in sync."""


class EligibleLeadersNotAvailable(LeaderNotAvailable, code=83, retriable=True, refresh_metadata=True):
    """No replica lives that could lead."""


class ElectionNotNeeded(OttlaError, code=84):
    """The partition is led as it should be."""


class NoReassignmentInProgress(OttlaError, code=85):
    """The partition is not being moved."""


class OffsetNotAvailable(OttlaError, code=78, retriable=True):
    """The new leader's high watermark has not caught up yet."""


class ThrottlingQuotaExceeded(OttlaError, code=89, retriable=True):
    """More is asked than can be done now: ask again later."""


class MemberIdRequired(OttlaError, code=79):
    """Join again, with the member id of this answer."""


class GroupMaxSizeReached(OttlaError, code=81):
    """The group has as many members as it may have."""


class FencedInstanceId(OttlaError, code=82):
    """Another member with the same group.instance.id has taken this one's place."""


class GroupSubscribedToTopic(OttlaError, code=86):
    """Members of the group subscribe to the topic."""


class InvalidRecord(OttlaError, code=87):
    """A record breaks a rule of its topic."""


class UnknownTopicId(OttlaError, code=100, retriable=True, refresh_metadata=True):
    """The topic id belongs to no topic; it may have been deleted and created anew."""


class InconsistentTopicId(OttlaError, code=103, retriable=True, refresh_metadata=True):
    """The data on disk belongs to an earlier topic of the same name."""


# --- what has no number: one side of a connection says that the bytes make no sense, or a client gives up ---------------


class LocalProtocolError(OttlaError):
    """We were about to send something that the protocol forbids."""


class RemoteProtocolError(OttlaError):
    """The other side sent something that the protocol forbids."""


class ConfigError(OttlaError, ValueError):
    """A setting is unknown or has a value that is not allowed."""


class NoBrokersAvailable(OttlaError, retriable=True):
    """No broker could be reached."""


class BrokerRefused(NoBrokersAvailable):
    """Nobody listens at the address of a broker."""


class UnreadableRecords(CorruptMessage):
    """Records that were fetched are damaged; a consumer stands before them until it seeks."""

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int = -1,
        next_offset: int = -1,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, hint=hint)
        self.offset = offset
        """The first that cannot be read,"""
        self.next_offset = next_offset
        """and where to seek to go on behind them."""


class RecordDeserializationError(OttlaError):
    """A deserializer refused a record; a consumer stands before it until it seeks to ``next_offset``."""

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int = -1,
        record: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, hint=hint)
        self.offset = offset
        self.next_offset = offset + 1
        """Where to seek to go on behind it."""
        self.record = record
        """The record as it came, key and value in bytes."""


class ClientTimeout(OttlaError, TimeoutError, retriable=True):
    """A wait took longer than its timeout."""


class ClientClosed(OttlaError):
    """The producer, consumer or admin was closed."""
