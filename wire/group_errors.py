"""What a coordinator answers that it cannot do for a consumer group. Imported from ottla.wire.errors, as all errors."""

from ottla.wire.error import OttlaError


class OffsetMetadataTooLarge(OttlaError, code=12):
    """The text beside a committed offset is too long."""


class CoordinatorLoadInProgress(OttlaError, code=14, retriable=True):
    """The coordinator is reading what it must know of the group."""


class CoordinatorNotAvailable(OttlaError, code=15, retriable=True):
    """The group has no coordinator at the moment."""


class NotCoordinator(OttlaError, code=16, retriable=True):
    """Another broker coordinates this group."""


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


class NonEmptyGroup(OttlaError, code=68):
    """The group has members."""


class GroupIdNotFound(OttlaError, code=69):
    """There is no such group."""


class MemberIdRequired(OttlaError, code=79):
    """Join again, with the member id of this answer."""


class GroupMaxSizeReached(OttlaError, code=81):
    """The group has as many members as it may have."""


class FencedInstanceId(OttlaError, code=82):
    """Another member with the same group.instance.id has taken this one's place."""


class GroupSubscribedToTopic(OttlaError, code=86):
    """Members of the group subscribe to the topic."""


class FencedMemberEpoch(OttlaError, code=110):
    """The member has another epoch by now: it must give up what it has and join again."""


class UnreleasedInstanceId(OttlaError, code=111):
    """Another member has this group.instance.id and has not left."""


class UnsupportedAssignor(OttlaError, code=112):
    """The coordinator knows no such way to share partitions."""


class StaleMemberEpoch(OttlaError, code=113):
    """The member has another epoch by now: its next heartbeat tells it."""


class InvalidRegularExpression(OttlaError, code=128):
    """The pattern of a subscription is not one that can be understood."""
