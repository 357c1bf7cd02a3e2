"""Reading JSON out of znodes that anybody may have written: typed fields, or MalformedZnode."""

import json
from typing import Any, NoReturn, TypeVar

from ottla.wire.errors import OttlaError

Value = TypeVar("Value")


class MalformedZnode(OttlaError):
    """A znode holds something else than it should."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"znode {path} is malformed: {why}", hint=f"look at it with: zkCli.sh get {path}")
        self.path = path
        self.why = why


def encode_json(fields: dict[str, Any] | tuple[str | None, ...]) -> bytes:
    """JSON as Kafka writes it: no spaces."""
    return json.dumps(fields, separators=(",", ":")).encode()


class Fields:
    """The JSON object in one znode; unknown keys are ignored, so that later versions may add some."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise MalformedZnode(path, f"not JSON ({error})") from None
        self._fields = self._object(fields)
        if self.number_or_text("version") < 1:
            self.refuse("its version is below 1")

    def _object(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(f"a JSON {type(value).__name__}, not an object")
        return value

    def refuse(self, why: str) -> NoReturn:
        raise MalformedZnode(self.path, why)

    def __contains__(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def _typed(self, key: str, value: object, kind: type[Value], default: Value | None = None) -> Value:
        if value is None and default is not None:
            return default
        # bool is an int to Python, but never to whoever wrote the znode
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(f"{key!r} is {value!r}, not {kind.__name__}")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        return self._typed(key, self._fields.get(key), int, default)

    def text(self, key: str, default: str | None = None) -> str:
        return self._typed(key, self._fields.get(key), str, default)

    def flag(self, key: str, default: bool | None = None) -> bool:
        return self._typed(key, self._fields.get(key), bool, default)

    def number_or_text(self, key: str, default: int | None = None) -> int:
        """A number that Kafka writes as text in some znodes."""
        value = self._fields.get(key)
        if isinstance(value, str):
            return decimal(self.path, value)
        return self._typed(key, value, int, default)

    def numbers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if default is not None and key not in self:
            return default
        return self._numbers(key, self._fields.get(key))

    def _numbers(self, key: str, value: object) -> tuple[int, ...]:
        return tuple(self._typed(key, number, int) for number in self._typed(key, value, list))

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        if key not in self:
            return default
        return tuple(self._typed(key, text, str) for text in self._typed(key, self._fields[key], list))

    def objects(self, key: str) -> list["Fields"]:
        """The objects of a list, each to be read as this one."""
        return [self._inner(value) for value in self._typed(key, self._fields.get(key), list)]

    def _inner(self, value: object) -> "Fields":
        inner = Fields.__new__(Fields)
        inner.path, inner._fields = self.path, self._object(value)
        return inner

    def text_map(self, key: str) -> dict[str, str]:
        return {name: self._typed(f"{key}.{name}", text, str) for name, text in self._map(key).items()}

    def settings(self, key: str) -> dict[str, str]:
        """A map of texts in which somebody may have written numbers and words of JSON: they are the texts that they look like.

        What else there is means nothing, and is not refused here: the others must count, and whoever reads them says so.
        """
        return {name: _as_text(value) for name, value in self._map(key).items()}

    def numbers_by_number(
        self, key: str, default: dict[int, tuple[int, ...]] | None = None
    ) -> dict[int, tuple[int, ...]]:
        """A map such as partition to replicas, whose keys JSON can only write as text, in the order of the keys."""
        if default is not None and key not in self:
            return default
        found = {
            decimal(self.path, name): self._numbers(f"{key}.{name}", value) for name, value in self._map(key).items()
        }
        return dict(sorted(found.items()))

    def _map(self, key: str) -> dict[str, Any]:
        return self._typed(key, self._fields.get(key), dict)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, int | float) else f"a JSON {type(value).__name__}"


def decimal(path: str, text: str) -> int:
    """A number written in decimal digits."""
    digits = text[1:] if text.startswith("-") else text
    # 19 digits hold every 64-bit number; more would let one znode burn our time
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise MalformedZnode(path, f"{text[:40]!r} is not a number")
    return int(text)
