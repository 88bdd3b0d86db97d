"""Columns as Spark has them: Arrow's types, in the words of Spark and back."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructType

from magnetar.arrow.batch import TYPES

__all__ = ["COLUMN_TYPES", "arrow_schema", "spark_type"]


def arrow_schema(schema: StructType) -> "pa.Schema":
    """Returns what Spark compares record batches with."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_type(kind: "pa.DataType") -> DataType:
    """Spark's type of what Arrow calls so."""
    return from_arrow_type(kind)


COLUMN_TYPES: dict[str, DataType] = {name: spark_type(kind) for name, kind in TYPES.items()}
