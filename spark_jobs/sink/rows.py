"""The rows of a write as columns of bytes: topic, partition, key, value and headers, in one shape whatever the user's types.

Columns that a write does not have stay away: what is not there need not be sorted.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ottla.wire.columns import HEADERS_MAX
from ottla.wire.errors import ConfigError, InvalidRecord, MessageTooLarge

COLUMNS = ("topic", "partition", "key", "value", "headers")

_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.binary(),
}
_encoder = msgspec.msgpack.Encoder()
_NO_HEADERS = _encoder.encode(())


def as_rows(batch: pa.RecordBatch, *, fixed_topic: bool) -> pa.Table:
    """The columns of one batch that Spark gives; that of topics stays away where all rows go to one."""
    names = [name for name in COLUMNS if name in batch.schema.names and not (name == "topic" and fixed_topic)]
    columns = [_column(name, batch.column(name)) for name in names]
    table = pa.table(columns, names=names)
    if "topic" in names and table["topic"].null_count:
        raise ConfigError("a row has no topic: its column topic is null, and there is no option topic")
    return table


def _column(name: str, array: pa.Array) -> pa.Array:
    if name == "headers":
        return _headers(array)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        return array.cast(_TYPES[name])
    return array if array.type == _TYPES[name] else pc.cast(array, _TYPES[name])


def _headers(array: pa.Array) -> pa.Array:
    """Each row's headers as a batch has them. The one thing here that runs once a row."""
    encoded = [
        _NO_HEADERS if not headers else _encoder.encode([_header(header) for header in headers])
        for headers in array.to_pylist()
    ]
    return pa.array(encoded, pa.binary())


def _header(header: dict[str, Any] | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise InvalidRecord(
            "a row's column headers has a null, or a header whose key is null",
            hint="filter those out; values may be null",
        )
    return header["key"], header["value"]


def join_row_headers(headers: pa.Array) -> memoryview | None:
    """The header column of a batch, of the rows' own; None where no row has any."""
    items: Sequence[bytes] = headers.to_pylist()
    if all(item == _NO_HEADERS for item in items):
        return None
    joined = b"\xdd" + len(items).to_bytes(4, "big") + b"".join(items)
    if len(joined) > HEADERS_MAX:
        raise MessageTooLarge(f"a batch with {len(joined)} bytes of headers; at most {HEADERS_MAX} are allowed")
    return memoryview(joined)
