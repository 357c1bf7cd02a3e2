"""Who may send which request: the rules that the table of requests (routes.py) names, one for each of them.

A rule says why a principal may not send a request, or None if it may. It is asked before the handler, and whoever breaks one is
told so and hung up on: no client breaks one by mistake.
"""

from collections.abc import Callable

from ottla.broker.peers import BrokerPrincipal
from ottla.net.principal import Principal
from ottla.wire.control import ControlledShutdownRequest, ControlRequest, UnreachableLeadersRequest
from ottla.wire.messages import CONSUMER, Request
from ottla.wire.requests import FetchRequest

Rule = Callable[[Request, Principal], str | None]


def everybody(request: Request, principal: Principal) -> str | None:
    return None


def brokers(request: Request, principal: Principal) -> str | None:
    """Brokers of this cluster."""
    return None if isinstance(principal, BrokerPrincipal) else "only brokers of this cluster send this"


def the_controller(request: Request, principal: Principal) -> str | None:
    """The broker that the request says is the controller. (Whether it is one, ControlHandlers asks ZooKeeper.)"""
    assert isinstance(request, ControlRequest)
    if _is_broker(principal, request.controller_id):
        return None
    return "only a broker of this cluster that has proven itself may give orders"


def the_broker_itself(request: Request, principal: Principal) -> str | None:
    """The broker that the request is about."""
    assert isinstance(request, ControlledShutdownRequest | UnreachableLeadersRequest)
    return None if _is_broker(principal, request.broker_id) else "only a broker itself may say this"


def consumers_and_the_replica_itself(request: Request, principal: Principal) -> str | None:
    """Everybody who reads as a consumer. A forged follower could read what is not committed and make the leader believe that
    it is replicated."""
    assert isinstance(request, FetchRequest)
    if request.replica_id == CONSUMER or _is_broker(principal, request.replica_id):
        return None
    return "only brokers of this cluster fetch as replicas"


def _is_broker(principal: Principal, broker_id: int) -> bool:
    return isinstance(principal, BrokerPrincipal) and principal.broker_id == broker_id
