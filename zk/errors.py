"""What can go wrong between us and ZooKeeper, told by whether the request took effect."""

from collections.abc import Sequence

from ottla.wire.errors import OttlaError


class ZkError(OttlaError):
    """ZooKeeper refused the request or could not be asked."""


class NoNode(ZkError):
    """The znode, or the parent of the one to create, does not exist."""


class NodeExists(ZkError):
    """The znode to create exists."""


class BadVersion(ZkError):
    """Somebody else changed the znode since it was read."""


class NotEmpty(ZkError):
    """The znode to delete has children."""


class RequestTooLarge(ZkError):
    """The request is larger than ZooKeeper accepts; it was not sent."""


class ZkUnavailable(ZkError, retriable=True):
    """There is no connection to ZooKeeper; the request was not sent."""


class NotAuthorized(ZkError):
    """The znode belongs to another user: this session has no right to do that."""


class AuthenticationFailed(ZkError):
    """ZooKeeper does not accept this way of saying who we are."""


class ConnectionLost(ZkError):
    """The connection dropped before the answer came: the outcome is unknown, read before deciding anything."""


class SessionExpired(ZkError):
    """The session is gone, and its ephemeral znodes with it; whether the last requests took effect is unknown."""


class RolledBack(ZkError):
    """This operation of a multi was not the one at fault: it was undone, or never tried."""


class MultiFailed(ZkError):
    """One operation of a multi failed, so none took effect.

    ``results`` has one error per operation in order, RolledBack for the innocent ones; ``index`` and ``cause`` tell which
    operation really failed, and why.
    """

    def __init__(self, results: Sequence[ZkError], paths: Sequence[str]) -> None:
        self.results = tuple(results)
        self.index = next((i for i, error in enumerate(results) if not isinstance(error, RolledBack)), 0)
        self.cause = self.results[self.index]
        super().__init__(
            f"multi of {len(results)} operations failed at operation {self.index} on {paths[self.index]}:"
            f" {type(self.cause).__name__}",
            hint=self.cause.hint,
        )


# ZooKeeper's own numbers. In the answer to a failed multi, 0 and -2 stand before and after the operation at fault.
_ERROR_BY_CODE: dict[int, type[ZkError]] = {
    0: RolledBack,
    -2: RolledBack,
    -4: ConnectionLost,
    -101: NoNode,
    -102: NotAuthorized,
    -103: BadVersion,
    -110: NodeExists,
    -111: NotEmpty,
    -112: SessionExpired,
    -115: AuthenticationFailed,
}
_DIGEST_HINT = (
    "is zookeeper.digest, or what the file in zookeeper.digest.file says, the same as with the other brokers?"
)
_NOT_ANSWERED = (ConnectionLost, SessionExpired, AuthenticationFailed)


def zk_error(code: int | None, path: str, details: object) -> ZkError:
    """The error for ZooKeeper's number of it, or for None if it never reached ZooKeeper."""
    kind = _ERROR_BY_CODE.get(code) if code is not None else None
    if kind is None:
        return ZkError(f"ZooKeeper failed on {path}: {details!r}")
    if kind is NotAuthorized:
        return NotAuthorized(f"NotAuthorized on {path}: it belongs to another user of ZooKeeper", hint=_DIGEST_HINT)
    return kind(f"{kind.__name__} on {path}")


def is_answer(code: int | None) -> bool:
    """Whether ZooKeeper itself said this, which proves that it was alive and heard of us."""
    return _ERROR_BY_CODE.get(code, ConnectionLost) not in _NOT_ANSWERED if code is not None else False
