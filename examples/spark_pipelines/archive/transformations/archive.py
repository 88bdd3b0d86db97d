"""Topics as a table, each message once; messages by key as another, made of it.

Spark runs the flow until all that was there is written, and the messages are acknowledged
before it ends. Spark does not lay files of a streaming table out by `partition_cols`, so the day
is a column; `magnetar pipeline archive` writes a directory for each.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.pipelines.archive import TIME_COLUMNS
from magnetar.spark.pipelines.project import Project

spark = SparkSession.active()
project = Project(spark, "topics", "subscription")
options = project.target.options(
    topics=project.text("topics"),
    subscription=project.text("subscription"),
    startingOffsets="earliest",
)


@dp.table
def messages() -> DataFrame:
    stream = spark.readStream.format("magnetar").options(**options).load()
    return stream.selectExpr("*", TIME_COLUMNS["day"])


@dp.materialized_view
def messages_by_key() -> DataFrame:
    return spark.table("messages").groupBy("key").count()
