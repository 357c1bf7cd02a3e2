"""How many groups a connection may bring into being."""

import pytest

from ottla.broker.groups.new_groups import GROUPS_OF_A_CONNECTION, NewGroups
from ottla.wire.errors import PolicyViolation


def test_a_group_that_is_asked_for_again_and_again_counts_once():
    new = NewGroups()
    for _ in range(GROUPS_OF_A_CONNECTION):
        new.count("c", "g")  # its coordinator cannot reach ZooKeeper, say
    for number in range(GROUPS_OF_A_CONNECTION - 1):
        new.count("c", f"g{number}")
    with pytest.raises(PolicyViolation):
        new.count("c", "one more")
    new.count("c", "g")
    new.count("other", "one more")
    new.closed("c")
    new.count("c", "one more")
