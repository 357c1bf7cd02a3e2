"""A broker's settings."""

from pathlib import Path
from typing import Any

import pytest

from ottla.broker.config import BrokerConfig, load
from ottla.wire.errors import ConfigError
from ottla.zk.access import Digest


def test_data_goes_to_a_folder_that_a_reboot_does_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert BrokerConfig(broker_id=1).data_folders == [Path("/home/somebody/.local/share/ottla/logs")]


def test_data_folders_are_many_and_may_lie_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert BrokerConfig(broker_id=1, log_dirs="~/a, /b,").data_folders == [Path("/home/somebody/a"), Path("/b")]
    with pytest.raises(ConfigError, match="cannot be found"):
        BrokerConfig(broker_id=1, log_dirs="~nobody-of-this-name/a")


# --- who the broker is in ZooKeeper ---------------------------------------------------------------------------------------


def test_digest_comes_from_a_property_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text("ottla:s3cret\n")
    (tmp_path / "properties").write_text("broker.id=1\nzookeeper.digest=ottla:s3cret\nzookeeper.set.acl=true\n")
    for config, _ in (
        load(tmp_path / "properties", {}),
        load(
            None, {"OTTLA_BROKER_ID": "1", "OTTLA_ZOOKEEPER_DIGEST": "ottla:s3cret", "OTTLA_ZOOKEEPER_SET_ACL": "TRUE"}
        ),
        load(None, {"OTTLA_ZOOKEEPER_DIGEST_FILE": f"{tmp_path}/digest"}, ["broker.id=1", "zookeeper.set.acl=true"]),
    ):
        assert config.read_zookeeper_digest() == Digest("ottla:s3cret")
        assert config.zookeeper_set_acl
        assert "s3cret" not in repr(config) + str(config)
    without = BrokerConfig(broker_id=1)
    assert (without.read_zookeeper_digest(), without.zookeeper_set_acl) == (None, False)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"zookeeper_set_acl": True}, "whom znodes belong to"),
        ({"zookeeper_digest": "a:s3cret", "zookeeper_digest_file": "/f"}, "both zookeeper.digest and"),
        ({"zookeeper_digest": "s3cret"}, "not user:password"),
        ({"zookeeper_digest": "s3cret", "zookeeper_set_acl": True}, "not user:password"),
    ],
)
def test_digest_settings_that_make_no_sense_are_refused_with_a_hint(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        BrokerConfig(broker_id=1, **settings)
    assert refused.value.hint
    assert "s3cret" not in str(refused.value) + refused.value.hint


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="give true or false"):
        load(None, {}, ["broker.id=1", "zookeeper.set.acl=yes"])


def test_a_line_that_is_no_setting_is_not_repeated_for_it_may_hold_a_password(tmp_path: Path) -> None:
    (tmp_path / "properties").write_text("broker.id=1\nzookeeper.digest ottla,s3cret\n")
    with pytest.raises(ConfigError, match=r"line 2: 'zookeeper\.digest'") as refused:
        load(tmp_path / "properties", {})
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="not key=value") as refused:
        load(None, {}, ["zookeeper.digest:ottla:s3cret"])
    assert "s3cret" not in str(refused.value)
