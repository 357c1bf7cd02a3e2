"""Which columns a write may have, and of which types: those of Spark's Kafka sink."""

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from ottla.wire.errors import ConfigError

_TEXT: tuple[DataType, ...] = (StringType(), BinaryType())
_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

ALLOWED: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "key": _TEXT,
    "value": _TEXT,
    "headers": (_HEADERS,),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """ConfigError if rows of this schema cannot be written. Other columns than ours are passed over, as Spark's sink does."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise ConfigError(
            f"there is no column value among {', '.join(kinds) or 'none'}; "
            "make one, as by .select(to_json(struct('*')).alias('value'))"
        )
    if topic is None and "topic" not in kinds:
        raise ConfigError("where shall the rows go? Give the option topic, or a column topic")
    for name, allowed in ALLOWED.items():
        if name in kinds and kinds[name].simpleString() not in [kind.simpleString() for kind in allowed]:
            wanted = " or ".join(kind.simpleString() for kind in allowed)
            raise ConfigError(f"column {name} is {kinds[name].simpleString()}, not {wanted}; cast it")
