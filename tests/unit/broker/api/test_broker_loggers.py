"""Levels of loggers as settings of a broker."""

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.api.broker_loggers import ROOT, BrokerLoggers
from ottla.wire.admin import BROKER_LOGGER_RESOURCE, ConfigAlteration, ConfigChange, ConfigOperation, ConfigSource
from ottla.wire.errors import NO_ERROR, InvalidConfig, InvalidRequest

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
PARENT, CHILD = "ottla.tests.loggers", "ottla.tests.loggers.child"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    one, other, level = logging.getLogger(PARENT), logging.getLogger(CHILD), logging.root.level
    yield
    one.setLevel(logging.NOTSET)
    other.setLevel(logging.NOTSET)
    logging.root.setLevel(level)


def alter(*changes: ConfigChange, name: str = "7", validate_only: bool = False) -> int:
    resource = ConfigAlteration(BROKER_LOGGER_RESOURCE, name, list(changes))
    (result,) = BrokerLoggers(7).altered([resource], validate_only=validate_only)
    return result.error_code


def level(name: str) -> str | None:
    found = {entry.key: entry for entry in BrokerLoggers(7).describe("7")}
    assert found[name].source == ConfigSource.BROKER_LOGGER
    return found[name].value


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("TRACE", "DEBUG"),
        ("DEBUG", "DEBUG"),
        ("INFO", "INFO"),
        ("WARN", "WARN"),
        ("ERROR", "ERROR"),
        ("FATAL", "FATAL"),
    ],
)
def test_levels_have_kafkas_names_and_reach_the_loggers_below(asked: str, told: str) -> None:
    assert alter(ConfigChange(PARENT, SET, asked)) == NO_ERROR
    assert (level(PARENT), level(CHILD)) == (told, told)
    assert alter(ConfigChange(CHILD, SET, "INFO"), ConfigChange(PARENT, DELETE)) == NO_ERROR
    assert level(CHILD) == "INFO"
    assert level(PARENT) == level(ROOT)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (ConfigChange(PARENT, SET, "WARNING"), InvalidConfig),
        (ConfigChange(PARENT, SET), InvalidConfig),
        (ConfigChange(PARENT, APPEND, "INFO"), InvalidRequest),
        (ConfigChange(PARENT, SUBTRACT, "INFO"), InvalidRequest),
        (ConfigChange("ottla.no.such.logger", SET, "INFO"), InvalidConfig),
        (ConfigChange(ROOT, DELETE), InvalidRequest),
    ],
)
def test_senseless_change_is_refused_with_all_others_of_its_resource(
    change: ConfigChange, error: type[Exception]
) -> None:
    assert alter(ConfigChange(CHILD, SET, "ERROR"), change) == error.code  # type: ignore[attr-defined]
    assert logging.getLogger(CHILD).level == logging.NOTSET
    assert "ottla.no.such.logger" not in logging.root.manager.loggerDict


def test_loggers_of_another_broker_are_refused_and_trying_changes_nothing() -> None:
    assert alter(ConfigChange(CHILD, SET, "ERROR"), name="8") == InvalidRequest.code
    assert alter(ConfigChange(CHILD, SET, "ERROR"), validate_only=True) == NO_ERROR
    assert logging.getLogger(CHILD).level == logging.NOTSET
    with pytest.raises(InvalidRequest):
        BrokerLoggers(7).describe("")


def test_what_is_named_twice_is_refused_and_changes_nothing() -> None:
    """A request of 2 MB may name a logger a hundred thousand times."""
    change = ConfigChange(CHILD, SET, "ERROR")
    assert alter(change, ConfigChange(PARENT, SET, "ERROR"), change) == InvalidRequest.code
    once = ConfigAlteration(BROKER_LOGGER_RESOURCE, "7", [change])
    elsewhere = ConfigAlteration(BROKER_LOGGER_RESOURCE, "8", [change])
    results = BrokerLoggers(7).altered([once, elsewhere, once], validate_only=False)
    assert [result.error_code for result in results] == [InvalidRequest.code] * 3
    assert [result.name for result in results] == ["7", "8", "7"]
    assert logging.getLogger(CHILD).level == logging.getLogger(PARENT).level == logging.NOTSET


def test_change_of_many_levels_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert alter(ConfigChange(CHILD, SET, "ERROR"), ConfigChange(PARENT, SET, "WARN")) == NO_ERROR
    assert caplog.messages == [f"log levels changed levels={CHILD}:ERROR,{PARENT}:WARNING"]
