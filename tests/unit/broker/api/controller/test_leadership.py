"""Who leads, and where, as it is asked of the controller: what is refused before the controller hears of it."""

from typing import cast

import pytest

from ottla.broker.api.controller.each import ITEMS_MAX
from ottla.broker.api.controller.leadership import LeadershipHandlers
from ottla.broker.controller.api import ControllerApi
from ottla.net.peer import Peer
from ottla.wire.admin import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    Reassignment,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import InvalidRequest
from ottla.wire.messages import PartitionName, Request
from ottla.wire.native import NATIVE

MANY = [PartitionName("t", number) for number in range(ITEMS_MAX + 1)]


@pytest.mark.parametrize(
    "request_of_many",
    [
        ElectLeadersRequest(ElectionType.PREFERRED, MANY, 1000),
        ListPartitionReassignmentsRequest(MANY, 1000),
        AlterPartitionReassignmentsRequest([Reassignment("t", name.partition, [1]) for name in MANY], 1000),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_list_that_would_hold_the_controller_up_is_refused(request_of_many: Request) -> None:
    handlers = LeadershipHandlers(lambda: cast(ControllerApi, object()))
    handle = {
        ElectLeadersRequest: handlers.elect,
        ListPartitionReassignmentsRequest: handlers.reassignments,
        AlterPartitionReassignmentsRequest: handlers.reassign,
    }[type(request_of_many)]
    incoming = IncomingRequest(NATIVE, int(request_of_many.api), 0, 1, "test", request_of_many, [])
    with pytest.raises(InvalidRequest, match="at most"):
        handle(incoming, cast(Peer, None))
