"""The headers of a record, as a user gives them and as they are sent."""

from collections.abc import Iterable
from typing import Any


def checked_headers(headers: Iterable[Any]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record, as plain str and bytes; TypeError here, in the caller's thread, if they are none."""
    try:
        pairs = tuple((name, content) for name, content in headers)
    except (TypeError, ValueError):
        raise TypeError(f"headers must be pairs of a name and bytes, not {headers!r}") from None
    return tuple((_plain_name(name, content), _plain_content(name, content)) for name, content in pairs)


def _plain_name(name: object, content: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a header must be a str and bytes or None, not ({name!r}, {content!r})")
    plain = name if type(name) is str else str.__str__(name)  # of numpy's str_, say, msgpack would know nothing
    plain.encode()  # raises for half a surrogate pair, which cannot be sent
    return plain


def _plain_content(name: object, content: object) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"a header must be a str and bytes or None, not ({name!r}, {content!r})")
