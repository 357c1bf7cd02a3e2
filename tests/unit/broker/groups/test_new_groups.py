"""How many groups a connection may bring into being."""

import pytest

from ottla.broker.groups.new_groups import GROUPS_OF_A_CONNECTION, NewGroups
from ottla.wire.errors import PolicyViolation


def test_a_group_that_is_asked_for_again_and_again_counts_once():
    new = NewGroups()
    mine = new.of("c")
    for _ in range(GROUPS_OF_A_CONNECTION):
        mine.count("g")  # its coordinator cannot reach ZooKeeper, say
    for number in range(GROUPS_OF_A_CONNECTION - 1):
        mine.count(f"g{number}")
    with pytest.raises(PolicyViolation):
        mine.count("one more")
    mine.count("g")
    new.of("other").count("one more")
    new.closed("c")
    new.of("c").count("one more")
