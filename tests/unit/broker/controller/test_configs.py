"""What becomes of a topic's settings when some of them are changed."""

import pytest

from ottla.broker.controller.decisions.configs import changed_broker_config, changed_config
from ottla.wire.admin import ConfigChange, ConfigOperation
from ottla.wire.errors import InvalidConfig, InvalidRequest, OttlaError

SET, DELETE, APPEND, SUBTRACT = ConfigOperation

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
HAD = {
    "retention.ms": "1000",
    "cleanup.policy": "delete",
    "written.by.others": "nonsense",
    FOLLOWERS: "0:1,1:2",
}


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ([], {}),
        ([ConfigChange("retention.ms", SET, " 0002000 ")], {"retention.ms": "2000"}),
        ([ConfigChange("segment.bytes", SET, "5000")], {"segment.bytes": "5000"}),
        ([ConfigChange("retention.ms", DELETE)], {"retention.ms": None}),
        ([ConfigChange("segment.ms", DELETE)], {}),
        ([ConfigChange("no.such.setting", DELETE)], {}),
        ([ConfigChange(LEADERS, APPEND, "0:1,1:2")], {LEADERS: "0:1,1:2"}),
        ([ConfigChange(FOLLOWERS, SUBTRACT, "0:1")], {FOLLOWERS: "1:2"}),
        ([ConfigChange(FOLLOWERS, SUBTRACT, "0:1,1:2")], {FOLLOWERS: ""}),
        ([ConfigChange("written.by.others", DELETE)], {"written.by.others": None}),
        ([ConfigChange("cleanup.policy", APPEND, "delete")], {}),
        ([ConfigChange("cleanup.policy", SUBTRACT, "compact")], {}),
        (
            [ConfigChange("retention.ms", DELETE), ConfigChange("unclean.leader.election.enable", SET, "TRUE")],
            {"retention.ms": None, "unclean.leader.election.enable": "true"},
        ),
    ],
)
def test_settings_that_are_not_named_stay(changes: list[ConfigChange], after: dict[str, str | None]) -> None:
    expected = {key: value for key, value in {**HAD, **after}.items() if value is not None}
    assert changed_config(HAD, changes) == expected


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([ConfigChange("retention.ms", SET, "soon")], InvalidConfig),
        ([ConfigChange("retention.ms", SET)], InvalidRequest),
        ([ConfigChange("retention.ms", 7, "1")], InvalidRequest),
        ([ConfigChange("retention.ms", APPEND, "1")], InvalidConfig),
        ([ConfigChange("retention.ms", SUBTRACT, "1")], InvalidConfig),
        ([ConfigChange("cleanup.policy", APPEND, "burn")], InvalidConfig),
        ([ConfigChange("cleanup.policy", SUBTRACT, "delete")], InvalidConfig),
        ([ConfigChange("no.such.setting", SET, "1")], InvalidConfig),
        ([ConfigChange("retention.ms", SET, "1"), ConfigChange("retention.ms", DELETE)], InvalidRequest),
    ],
)
def test_senseless_change_is_refused(changes: list[ConfigChange], error: type[OttlaError]) -> None:
    with pytest.raises(error):
        changed_config(HAD, changes)


def test_deleting_what_is_not_set_for_brokers_succeeds() -> None:
    for key in ("leader.replication.throttled.rate", "no.such.setting", "log.dirs"):
        assert changed_broker_config({"log.roll.ms": "7"}, [ConfigChange(key, DELETE)], "1") == {"log.roll.ms": "7"}
