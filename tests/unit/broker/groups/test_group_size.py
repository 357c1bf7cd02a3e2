"""What the members of a classic group may tell of themselves."""

import pytest

from ottla.broker.groups.membership import Answer, Client, Effect, Group, Write
from ottla.wire.errors import GroupMaxSizeReached
from ottla.wire.groups import GroupProtocol, JoinGroupRequest, JoinGroupResponse

MEMBERS = 20


def joined(group: Group, member_id: str, instance_id: str, size: int) -> list[Effect]:
    protocols = [GroupProtocol("range", b"x" * size)]
    request = JoinGroupRequest("g", 10_000, 300_000, member_id, instance_id, "consumer", protocols)
    return group.join(member_id, request, Client("c", "h"), 0.0)


def test_a_member_that_tells_more_than_before_does_not_make_the_group_too_large_for_its_znode() -> None:
    """All would be told that, though only some asked for too much."""
    ids = (f"m{number}" for number in range(100))
    group = Group("g", lambda name: next(ids), max_size=MEMBERS)
    for number in range(MEMBERS):
        joined(group, "", f"i{number}", 10)
    effects: list[Effect] = []
    for _ in range(2):
        for member in group.members:
            effects += joined(group, member.member_id, member.instance_id or "", 60_000)
    written = [effect.record for effect in effects if isinstance(effect, Write)]
    assert all(not record.is_larger_than(900_000) for record in written)
    told = [effect.response for effect in effects if isinstance(effect, Answer)]
    refused = [one for one in told if isinstance(one, JoinGroupResponse) and one.error_code == GroupMaxSizeReached.code]
    assert refused
    assert len(group.members) == MEMBERS


@pytest.mark.parametrize("letter", ["x", "\0", "\U0001f600"], ids=["plain", "escaped", "escaped twice"])
@pytest.mark.parametrize("where", ["protocol", "client id", "instance"])
def test_names_and_ids_count_as_what_a_member_tells_of_itself(letter: str, where: str) -> None:
    """Sixteen joins with protocols of long names made a group unwritable, for all of its members."""
    ids = (f"m{number}" for number in range(100))
    group = Group("g", lambda name: next(ids), max_size=50)
    good = joined(group, "", "good", 10)
    for number in range(40):
        name = f"{number}{letter * 60_000}"
        protocols = [GroupProtocol("range", b"")]
        if where == "protocol":
            protocols.append(GroupProtocol(name, b""))
        request = JoinGroupRequest(
            "g", 10_000, 300_000, "", name if where == "instance" else f"i{number}", "consumer", protocols
        )
        good += group.join("ticket", request, Client(name if where == "client id" else "c", "h"), 0.0)
    good += joined(group, "m0", "good", 10)
    good += group.tick(1e9)
    written = [effect.record for effect in good if isinstance(effect, Write)]
    assert written
    assert not group.record().is_larger_than(900_000)
    assert all(not record.is_larger_than(900_000) for record in written)
    told = [effect.response for effect in good if isinstance(effect, Answer)]
    assert any(isinstance(one, JoinGroupResponse) and one.error_code == GroupMaxSizeReached.code for one in told)
