"""A broker's settings."""

from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.wire.errors import ConfigError


def test_data_goes_to_a_folder_that_a_reboot_does_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert BrokerConfig(broker_id=1).data_folders == [Path("/home/somebody/.local/share/ottla/logs")]


def test_data_folders_are_many_and_may_lie_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert BrokerConfig(broker_id=1, log_dirs="~/a, /b,").data_folders == [Path("/home/somebody/a"), Path("/b")]
    with pytest.raises(ConfigError, match="cannot be found"):
        BrokerConfig(broker_id=1, log_dirs="~nobody-of-this-name/a")
