"""Kinds of settings of topics, groups and brokers: the allowed values, how text is read, and Kafka's name for the type."""

import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.wire.admin import ConfigType

ConfigValue = int | float | bool | str

CONFIG_VALUE_MAX = 1000
"""Characters of a setting: every one that means something is far shorter, and all brokers are told all of them."""

CONFIG_LIST_MAX = 40_000
"""Characters of a list of throttled replicas, 5,000 of them. Two such lists fit into one piece of UpdateMetadata."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?", re.ASCII)


class ConfigKind(NamedTuple):
    """``parse`` raises ValueError or KeyError for what is not ``allowed``, which says in words what is."""

    allowed: str
    parse: Callable[[str], ConfigValue]
    type: ConfigType
    length_max: int = CONFIG_VALUE_MAX


def integer(low: int, high: int = LONG_MAX) -> ConfigKind:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    kind = ConfigType.INT if high <= INT_MAX else ConfigType.LONG
    return ConfigKind(f"an integer from {low} to {high}", parse, kind)


def number(low: float, high: float) -> ConfigKind:
    def parse(text: str) -> float:
        if not _NUMBER.fullmatch(text) or not low <= float(text) <= high:
            raise ValueError(text)
        return float(text)

    return ConfigKind(f"a number from {low:g} to {high:g}", parse, ConfigType.DOUBLE)


def one_of(*choices: str) -> ConfigKind:
    return ConfigKind(" or ".join(choices), _choice(choices), ConfigType.STRING)


def only(value: str, why: str, kind: ConfigType = ConfigType.STRING) -> ConfigKind:
    """One value of those that Kafka knows, and why no other one."""
    return ConfigKind(f"{value}: {why}", _choice((value,)), kind)


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def boolean() -> ConfigKind:
    return ConfigKind("true or false", lambda text: {"true": True, "false": False}[text.lower()], ConfigType.BOOLEAN)


def matching(pattern: str, allowed: str) -> ConfigKind:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(text)
        return text

    return ConfigKind(allowed, parse, ConfigType.STRING)


def throttled_replicas() -> ConfigKind:
    """Kafka's format: ``*``, nothing, or partitions and brokers, as ``0:101,1:102``."""
    one = re.compile(r"[0-9]{1,10}:[0-9]{1,10}", re.ASCII)

    def parse(text: str) -> str:
        parts = [part.strip() for part in text.split(",")] if text else []
        if parts not in (["*"], ["none"]) and not all(map(one.fullmatch, parts)):
            raise ValueError(text)
        return ",".join(parts)

    allowed = "* or a list of partition:broker with commas between them"
    return ConfigKind(allowed, parse, ConfigType.LIST, CONFIG_LIST_MAX)


def config_text(value: object) -> str:
    """The one way in which a value is written."""
    return str(value).lower() if isinstance(value, bool) else str(value)
