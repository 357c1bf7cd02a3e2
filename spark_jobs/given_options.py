"""What the user gave to ``.option(...)``, and how to read it: names in any case, values as text. Pure."""

import difflib
import re
from collections.abc import Mapping, Sequence

from ottla.wire.errors import ConfigError

_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def wrong(name: str, value: str, allowed: str) -> ConfigError:
    return ConfigError(f"option {name}={value!r} is not allowed; give {allowed}")


class GivenOptions:
    """By names in lower case: Spark forgets the user's spelling."""

    def __init__(self, given: Mapping[str, str], known: Sequence[str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._known = {name.lower(): name for name in known}

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def kafka(self) -> dict[str, str]:
        return {name[len("kafka.") :]: value for name, value in self._given.items() if name.startswith("kafka.")}

    def refuse_unknown(self) -> None:
        for name in self._given:
            if name not in self._known and not name.startswith("kafka."):
                near = difflib.get_close_matches(name, self._known, n=1)
                listed = ", ".join(self._known.values())
                hint = f"did you mean {self._known[near[0]]}?" if near else f"known are {listed}, kafka.*"
                raise ConfigError(f"unknown option {name!r} of format('ottla'); {hint}")

    def boolean(self, name: str, default: bool) -> bool:
        text = self.get(name)
        if text is None:
            return default
        found = {"true": True, "false": False}.get(text.strip().lower())
        if found is None:
            raise wrong(name, text, "true or false")
        return found

    def number(self, name: str, default: int, *, least: int) -> int:
        text = self.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text, re.ASCII) or int(text) < least:
            raise wrong(name, text, f"a whole number, {least} or more")
        return int(text)

    def positive(self, name: str) -> int | None:
        return self.number(name, 1, least=1) if self.get(name) is not None else None

    def duration_ms(self, name: str, default: int) -> int:
        return int(self._measured(name, default, _UNITS_MS, "a time, as '500ms', '30s' or '15m'"))

    def bytes(self, name: str, default: int, *, least: int) -> int:
        allowed = f"a size, as '64m' or '1g', of at least {least} bytes"
        found = int(self._measured(name, default, _UNITS_BYTES, allowed))
        if found < least:
            raise wrong(name, self.get(name) or str(found), allowed)
        return found

    def _measured(self, name: str, default: int, units: Mapping[str, float], allowed: str) -> float:
        text = self.get(name)
        if text is None:
            return default
        found = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.strip().lower(), re.ASCII)
        if found is None or found[2] not in units:
            raise wrong(name, text, allowed)
        return int(found[1]) * units[found[2]]
