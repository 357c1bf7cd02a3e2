"""Is our session alive? A pure state machine: what happened goes in, what to announce comes out.

    SUSPENDED --connected--> CONNECTED --suspended--> SUSPENDED --deadline--> EXPIRED --connected--> CONNECTED
                                 \\------------- lost, or another session id -----/

kazoo learns of an expiry only when it reconnects. So while it is cut off we keep our own deadline: ZooKeeper cannot have
expired the session before one negotiated timeout after the *sending* of the last request that it answered.
"""

import enum

from ottla.zk.session.handshake import Handshake


class SessionState(enum.Enum):
    """What a session tells its subscribers."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class SessionLife:
    """One session after the other: the current id, its timeout and when it may be over."""

    def __init__(self, timeout_s: float) -> None:
        self.session_id = 0
        self.timeout_s = timeout_s
        self.expires_at = 0.0
        self.state = SessionState.SUSPENDED
        self.own_session_ids: set[int] = set()

    def connected(self, session_id: int, handshake: Handshake) -> list[SessionState]:
        """Some servers hand out a new session without saying that the old one is over: we say it."""
        announced = self.lost() if self.session_id not in (0, session_id) else []
        self.session_id = session_id
        self.own_session_ids.add(session_id)
        self.timeout_s = handshake.timeout_s
        self.expires_at = handshake.started_at + handshake.timeout_s
        self.state = SessionState.CONNECTED
        return [*announced, SessionState.CONNECTED]

    def answered(self, sent_at: float) -> None:
        self.expires_at = max(self.expires_at, sent_at + self.timeout_s)

    def suspended(self) -> list[SessionState]:
        if self.state is not SessionState.CONNECTED:
            return []
        self.state = SessionState.SUSPENDED
        return [SessionState.SUSPENDED]

    def deadline(self, now: float) -> list[SessionState]:
        """The clock alone expires a session only while we are cut off: a busy loop may just have read its answers late."""
        return self.lost() if self.state is SessionState.SUSPENDED and now >= self.expires_at else []

    def lost(self) -> list[SessionState]:
        if self.state is SessionState.EXPIRED or not self.session_id:
            return []
        self.state = SessionState.EXPIRED
        return [SessionState.EXPIRED]

    def surely_alive(self, now: float) -> bool:
        return self.state is not SessionState.EXPIRED and now < self.expires_at
