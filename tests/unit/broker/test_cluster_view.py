"""A client is told the addresses of the listener that it came through."""

import pytest

from ottla.broker.cluster_view import DEPARTED_S, ClusterView
from ottla.broker.controller.decisions.pieces import in_pieces
from ottla.wire.control import PartitionState, SettingsTold, TopicConfig, UpdateMetadataRequest
from ottla.wire.messages import BrokerEndpoint, ListenerAddress


def broker(number: int, *listeners: str) -> BrokerEndpoint:
    addresses = tuple(ListenerAddress(name, name.lower(), number) for name in listeners)
    return BrokerEndpoint(number, "between", number, "rack1", addresses)


def view(*brokers: BrokerEndpoint) -> ClusterView:
    found = ClusterView("cluster")
    tell(found, *brokers)
    return found


def tell(view: ClusterView, *brokers: BrokerEndpoint) -> None:
    view.update(UpdateMetadataRequest(1, 1, 1, True, list(brokers), [], [], []))


def seen(view: ClusterView, listener: str) -> list[tuple[int, str, int]]:
    found = view.describe(None, listener).brokers
    assert not any(broker.listeners for broker in found), "clients are told one address and no more"
    return [(broker.id, broker.host, broker.port) for broker in found]


def test_each_listener_has_its_own_addresses() -> None:
    known = view(broker(1, "INSIDE", "OUTSIDE"), broker(2, "INSIDE", "OUTSIDE"))
    assert seen(known, "INSIDE") == [(1, "inside", 1), (2, "inside", 2)]
    assert seen(known, "OUTSIDE") == [(1, "outside", 1), (2, "outside", 2)]
    assert known.describe([], "OUTSIDE").brokers[0].rack == "rack1"


def test_brokers_find_each_other_between_them() -> None:
    endpoint = view(broker(1, "INSIDE", "OUTSIDE")).endpoint(1)
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("between", 1)


def test_broker_without_the_listener_is_left_out() -> None:
    assert seen(view(broker(1, "INSIDE", "OUTSIDE"), broker(2, "INSIDE")), "OUTSIDE") == [(1, "outside", 1)]


def test_broker_that_says_nothing_of_listeners_has_one_address_for_all() -> None:
    assert seen(view(broker(1)), "OUTSIDE") == [(1, "between", 1)]


def test_brokers_that_come_and_go_are_seen_at_once() -> None:
    known = view(broker(1, "OUTSIDE"))
    assert len(seen(known, "OUTSIDE")) == 1
    tell(known, broker(1, "OUTSIDE"), broker(2, "OUTSIDE"))
    assert len(seen(known, "OUTSIDE")) == 2


# --- how new it is -------------------------------------------------------------------------------------------------------


def order(epoch: int, version: int, *, full: bool = True, piece: int = 0, more: bool = False) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(1, epoch, 1, full, [broker(1)], [], [], [], version, piece, more)


def test_answers_carry_the_version_that_the_controller_told() -> None:
    known = ClusterView("cluster")
    assert not known.known
    assert known.version == (0, 0)
    known.update(order(3, 7))
    assert known.describe(None, "OUTSIDE").version == (3, 7)
    known.update(order(3, 8, full=False))
    assert known.describe([], "OUTSIDE").version == (3, 8)
    known.update(order(4, 1))
    assert known.describe(["t"], "OUTSIDE").version == (4, 1)


def test_order_that_comes_late_does_not_make_the_view_older() -> None:
    known = ClusterView("cluster")
    known.update(order(3, 8))
    known.update(order(3, 7, full=False))
    assert known.version == (3, 8)


def test_view_that_has_some_of_the_pieces_does_not_speak() -> None:
    known = ClusterView("cluster")
    known.update(order(3, 8, more=True))
    assert (known.known, known.version) == (False, (0, 0))
    known.update(order(3, 8, piece=1))
    assert (known.known, known.version) == (True, (3, 8))
    known.update(order(3, 9, full=False, more=True))
    assert known.version == (3, 8), "a part of a later change makes it no newer"
    known.update(order(3, 9, full=False))
    assert known.version == (3, 9)


def test_a_broker_that_left_is_told_of_a_moment_longer() -> None:
    now = [100.0]
    known = ClusterView("cluster", lambda: now[0])
    tell(known, broker(1, "INSIDE"), broker(2, "INSIDE"))
    assert known.describe([], "INSIDE").departed == ()
    tell(known, broker(1, "INSIDE"))
    now[0] += DEPARTED_S / 2
    tell(known, broker(1, "INSIDE"))
    (departed,) = known.describe([], "INSIDE").departed
    assert (departed.id, departed.host, departed.port) == (2, "inside", 2)
    assert [one.id for one in known.describe([], "INSIDE").brokers] == [1]
    now[0] += DEPARTED_S / 2
    assert known.describe([], "INSIDE").departed == ()
    tell(known, broker(1, "INSIDE"), broker(2, "INSIDE"))
    assert known.describe([], "INSIDE").departed == ()


def test_listener_that_raises_keeps_no_other_from_hearing_and_is_named_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = ClusterView("cluster")
    heard: list[int] = []

    def broken() -> None:
        raise RuntimeError("it cannot bear that")

    known.on_changed += [lambda: heard.append(1), broken, lambda: heard.append(2)]
    tell(known, broker(1, "INSIDE"))
    tell(known, broker(1, "INSIDE"), broker(2, "INSIDE"))
    assert heard == [1, 2, 1, 2]
    assert sorted(known.brokers) == [1, 2]
    (complaint,) = [record.getMessage() for record in caplog.records]
    assert "broken" in complaint
    assert "it cannot bear that" in caplog.text


def test_settings_are_those_of_the_latest_word() -> None:
    view = ClusterView("c")

    def told(epoch: int, version: int, value: str) -> None:
        settings = (SettingsTold("", {"num.partitions": value}),)
        view.update(UpdateMetadataRequest(1, epoch, 1, not view.known, [], [], [], [], version, settings=settings))

    for epoch, version, value, counts in [(1, 5, "1", "1"), (1, 7, "2", "2"), (1, 6, "3", "2"), (2, 1, "4", "4")]:
        told(epoch, version, value)
        assert view.settings[""]["num.partitions"] == counts


# --- from other brokers ----------------------------------------------------------------------------------------------------


def told_of_a_topic(version: int, leader: int = 1) -> UpdateMetadataRequest:
    state = PartitionState("t", "id", 0, leader, version, [1, 2], [leader], version, 3, [2])
    settings = (SettingsTold("1", {"a": "b"}),)
    return UpdateMetadataRequest(
        1,
        3,
        9,
        True,
        [broker(1), broker(2)],
        [TopicConfig("t", "id", {"k": "v"})],
        [state],
        [],
        version,
        settings=settings,
    )


def test_what_a_broker_knows_is_what_its_peer_knows_then() -> None:
    knows, asks = ClusterView("cluster"), ClusterView("cluster")
    knows.update(told_of_a_topic(5, leader=2))
    asks.update(told_of_a_topic(4))
    pieces = [piece for piece in in_pieces(knows.as_update()) if isinstance(piece, UpdateMetadataRequest)]
    assert asks.take_from_peer(pieces)
    assert asks.describe(None, "L") == knows.describe(None, "L")
    assert (asks.version, asks.settings, asks.leader_of("t", 0)) == ((3, 5), {"1": {"a": "b"}}, (2, 5))
    asks.update(told_of_a_topic(6))  # the controller speaks again
    assert asks.leader_of("t", 0) == (1, 6)


def test_older_metadata_of_a_peer_is_not_taken_and_the_controller_still_has_to_tell_everything() -> None:
    known, peer = ClusterView("cluster"), ClusterView("cluster")
    known.update(told_of_a_topic(5))
    peer.update(told_of_a_topic(5, leader=2))
    assert not known.take_from_peer([peer.as_update()])
    assert known.leader_of("t", 0) == (1, 5)
    peer.update(told_of_a_topic(6, leader=2))
    assert known.take_from_peer([peer.as_update()])
    assert known.told_in == 9  # the life in which the controller told it everything; a peer's word is of none
