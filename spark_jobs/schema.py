"""The columns of a read: names and types of Spark's Kafka source, and ``.schema(...)`` as the choice of some of them."""

import difflib

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.wire.errors import ConfigError

HEADERS = "headers"

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def whole_schema(include_headers: bool) -> StructType:
    """All columns; ``headers`` only if they are wanted, for they are slow."""
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if name != HEADERS or include_headers])


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema asks for, in its order; ConfigError if one of them is none of ours, or of another type."""
    if not schema.fields:
        raise ConfigError(f".schema(...) names no column; give some of {_listed()}")
    seen = set()
    for field in schema.fields:
        if field.name not in _TYPES:
            near = difflib.get_close_matches(field.name, _TYPES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {_listed()}"
            raise ConfigError(f".schema(...) names the column {field.name!r}, which is not there; {hint}")
        kind = _TYPES[field.name]
        if _bare(field.dataType) != _bare(kind):
            raise ConfigError(
                f".schema(...) says {field.name} {field.dataType.simpleString()}, but the column is "
                f"{kind.simpleString()}; read it as that and cast it"
            )
        if field.name in seen:
            raise ConfigError(f".schema(...) names the column {field.name} twice")
        seen.add(field.name)
    return tuple(field.name for field in schema.fields)


def _bare(kind: DataType) -> str:
    """The type without what is said of nulls."""
    return kind.simpleString()


def _listed() -> str:
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
