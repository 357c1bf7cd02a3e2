"""The state machine behind a session: what is announced, and until when it surely lives."""

from ottla.zk.session.handshake import Handshake
from ottla.zk.session.session_state import SessionLife, SessionState

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


def connected_life() -> SessionLife:
    life = SessionLife(timeout_s=6.0)
    assert life.connected(1, Handshake(timeout_s=4.0, started_at=100.0)) == [CONNECTED]
    return life


def test_negotiated_timeout_counts_not_the_one_asked_for() -> None:
    life = connected_life()
    assert (life.timeout_s, life.expires_at) == (4.0, 104.0)


def test_deadline_counts_from_the_sending_of_an_answered_request() -> None:
    life = connected_life()
    life.answered(sent_at=103.0)
    life.answered(sent_at=102.0)
    assert life.expires_at == 107.0
    assert life.surely_alive(106.9)
    assert not life.surely_alive(107.0)


def test_own_deadline_expires_a_session_only_while_it_is_cut_off() -> None:
    life = connected_life()
    assert life.deadline(now=200.0) == []
    assert not life.surely_alive(200.0)
    assert life.suspended() == [SUSPENDED]
    assert life.suspended() == []
    assert life.deadline(now=103.9) == []
    assert life.deadline(now=104.0) == [EXPIRED]
    assert life.deadline(now=105.0) == []
    assert not life.surely_alive(101.0)


def test_expiry_is_announced_once_whoever_finds_it_out_first() -> None:
    life = connected_life()
    life.suspended()
    assert life.deadline(now=104.0) == [EXPIRED]
    assert life.lost() == []
    assert life.connected(2, Handshake(4.0, 110.0)) == [CONNECTED]
    assert life.expires_at == 114.0
    assert life.lost() == [EXPIRED]


def test_new_session_id_without_a_word_is_announced_as_expiry_first() -> None:
    life = connected_life()
    life.suspended()
    assert life.connected(2, Handshake(4.0, 102.0)) == [EXPIRED, CONNECTED]
    assert life.own_session_ids == {1, 2}


def test_reconnect_in_time_keeps_the_session() -> None:
    life = connected_life()
    life.suspended()
    assert life.connected(1, Handshake(4.0, 103.0)) == [CONNECTED]
    assert life.expires_at == 107.0


def test_session_that_never_was_cannot_expire() -> None:
    life = SessionLife(timeout_s=6.0)
    assert life.lost() == []
    assert life.suspended() == []
    assert not life.surely_alive(0.0)
