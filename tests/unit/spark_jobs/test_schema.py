"""Columns: Spark's Kafka source's, and the choice of some."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from ottla.client.arrow import arrow_schema, batches_to_arrow
from ottla.spark_jobs.schema import wanted_columns, whole_schema
from ottla.wire.errors import ConfigError
from ottla.wire.records import RecordBatch, encode_batch


@pytest.mark.parametrize("headers", [False, True])
def test_spark_and_arrow_mean_the_same_columns(headers):
    assert to_arrow_schema(whole_schema(headers), timezone="UTC").equals(arrow_schema(headers))


def test_columns_come_in_the_order_in_which_they_are_asked_for():
    schema = StructType([StructField("offset", LongType(), False), StructField("value", BinaryType())])
    columns = wanted_columns(schema)
    table = batches_to_arrow([RecordBatch(encode_batch([b"v"], timestamps=0))], "t", 0, columns=columns)
    assert table.to_pylist() == [{"offset": 0, "value": b"v"}]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("valeu", BinaryType()), "did you mean value?"),
        (StructField("x", BinaryType()), "there are key binary, value binary"),
        (StructField("value", StringType()), "the column is binary; read it as that and cast it"),
        (StructField("offset", IntegerType()), "offset int, but the column is bigint"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_what_is(field, words):
    with pytest.raises(ConfigError) as caught:
        wanted_columns(StructType([field]))
    assert words in str(caught.value)


def test_a_column_stands_once_and_there_is_at_least_one():
    twice = StructField("value", BinaryType())
    with pytest.raises(ConfigError, match="twice"):
        wanted_columns(StructType([twice, twice]))
    with pytest.raises(ConfigError, match="no column"):
        wanted_columns(StructType([]))
