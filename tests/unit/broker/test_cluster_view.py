"""A client is told the addresses of the listener that it came through."""

from ottla.broker.cluster_view import ClusterView
from ottla.wire.control import UpdateMetadataRequest
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
