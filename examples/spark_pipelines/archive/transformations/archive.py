"""Topics as a table, each message once; messages by key as another, made of it.

Spark runs the flow until all that was there is written, and the messages are acknowledged
before it ends. Spark does not lay files of a streaming table out by `partition_cols`, so the day
is a column; `magnetar pipeline archive` writes a directory for each.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

DAY = "date_from_unix_date(cast(unix_millis(publish_time) div 86400000 as int)) as day"


def session() -> SparkSession:
    found = SparkSession.active()
    assert found is not None
    return found


@dp.table
def messages() -> DataFrame:
    spark = session()
    return (
        spark.readStream.format("magnetar")
        .option("serviceUrl", spark.conf.get("magnetar.serviceUrl"))
        .option("topics", spark.conf.get("magnetar.topics"))
        .option("subscription", spark.conf.get("magnetar.subscription"))
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("*", DAY)
    )


@dp.materialized_view
def messages_by_key() -> DataFrame:
    return session().table("messages").groupBy("key").count()
