"""The numbered table of everything that can go wrong between a client and a broker.

Codes are Kafka's. A handler raises one of these classes and dispatch answers with its code, once; the client raises the
same class on its side. Two flags tell a client what to do: ``retriable`` (the same request may succeed later) and
``refresh_metadata`` (ask who leads before trying again).

All errors are imported from here: those of groups (group_errors.py) and those that never travel (local_errors.py), too.
"""

from ottla.wire.error import ERRORS as ERRORS
from ottla.wire.error import NO_ERROR as NO_ERROR
from ottla.wire.error import OttlaError as OttlaError
from ottla.wire.group_errors import *  # noqa: F403
from ottla.wire.local_errors import *  # noqa: F403


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


class NetworkException(OttlaError, code=13, retriable=True, refresh_metadata=True):
    """The connection closed before the answer came; whether the request took effect is unknown."""


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


class ClusterAuthorizationFailed(OttlaError, code=31):
    """Only brokers of this cluster may send this request."""


class InvalidTimestamp(OttlaError, code=32):
    """A record's timestamp is out of the allowed range."""


class IllegalSaslState(OttlaError, code=34):
    """There is no SASL at this listener."""


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


class TransactionalIdAuthorizationFailed(OttlaError, code=53):
    """There are no transactions here."""


class StorageError(OttlaError, code=56, retriable=True, refresh_metadata=True):
    """The disk under this partition failed, and the broker serves it no more until it is restarted; or it is full."""


class LogDirNotFound(OttlaError, code=57):
    """The broker has no such data folder."""


class UnknownProducerId(OttlaError, code=59):
    """The partition knows nothing of this producer id."""


class FetchSessionIdNotFound(OttlaError, code=70, retriable=True):
    """The broker does not know what was fetched over this connection before: begin anew."""


class InvalidFetchSessionEpoch(OttlaError, code=71, retriable=True):
    """A fetch is not the one that follows the last: begin anew."""


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


class InvalidRecord(OttlaError, code=87):
    """A record breaks a rule of its topic."""


class UnknownTopicId(OttlaError, code=100, retriable=True, refresh_metadata=True):
    """The topic id belongs to no topic; it may have been deleted and created anew."""


class InconsistentTopicId(OttlaError, code=103, retriable=True, refresh_metadata=True):
    """The data on disk belongs to an earlier topic of the same name."""


class FetchSessionTopicIdError(OttlaError, code=106, retriable=True):
    """What is kept was named by topics' names and is fetched by their ids, or the other way round: begin anew."""


class MismatchedEndpointType(OttlaError, code=114):
    """A controller's endpoint was asked for, and this is a broker's."""


class UnsupportedEndpointType(OttlaError, code=115):
    """There are no endpoints of this kind."""


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
