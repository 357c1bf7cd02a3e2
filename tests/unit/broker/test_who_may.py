"""Who may send which request, as a table: every rule against everybody who might try."""

import pytest

from ottla.broker.api import who_may
from ottla.broker.api.who_may import Rule
from ottla.broker.peers import BrokerPrincipal
from ottla.net.principal import ANONYMOUS, Principal
from ottla.wire.control import (
    ControlledShutdownRequest,
    StopReplicaRequest,
    UnreachableLeadersRequest,
    WitnessRequest,
)
from ottla.wire.messages import CONSUMER, Request
from ottla.wire.requests import FetchRequest, MetadataRequest

CLIENT, USER, ONE, TWO = ANONYMOUS, Principal("User", "1"), BrokerPrincipal(1), BrokerPrincipal(2)


@pytest.mark.parametrize(
    ("rule", "request_", "may"),
    [
        (who_may.everybody, MetadataRequest(None), {CLIENT, USER, ONE, TWO}),
        (who_may.brokers, WitnessRequest(3), {ONE, TWO}),
        (who_may.the_controller, StopReplicaRequest(1, 5, 7, []), {ONE}),
        (who_may.the_controller, StopReplicaRequest(-1, 5, 7, []), set()),
        (who_may.the_broker_itself, ControlledShutdownRequest(2, 7), {TWO}),
        (who_may.the_broker_itself, UnreachableLeadersRequest(2, 7, [3]), {TWO}),
        (who_may.consumers_and_the_replica_itself, FetchRequest(0, 1, 1, []), {CLIENT, USER, ONE, TWO}),
        (who_may.consumers_and_the_replica_itself, FetchRequest(0, 1, 1, [], 2), {TWO}),
        (who_may.consumers_and_the_replica_itself, FetchRequest(0, 1, 1, [], CONSUMER - 1), set()),
    ],
    ids=lambda value: value.__name__ if callable(value) else type(value).__name__,
)
def test_rule_lets_pass_whom_it_names_and_tells_all_others_why_not(
    rule: Rule, request_: Request, may: set[Principal]
) -> None:
    for principal in (CLIENT, USER, ONE, TWO):
        why_not = rule(request_, principal)
        assert (why_not is None) == (principal in may), (str(principal), why_not)
        assert why_not is None or why_not.startswith("only ")


def test_principals_are_written_as_kafka_writes_them() -> None:
    assert [str(who) for who in (CLIENT, ONE)] == ["User:ANONYMOUS", "Broker:1"]
