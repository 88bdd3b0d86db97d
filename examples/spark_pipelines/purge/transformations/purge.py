"""Messages of a backlog that a predicate chooses: a table of them, and, if wanted, their skip.

The skip takes its ids from the files of that table, which each run writes anew. So what the table
shows is what is skipped; a run that was killed is run again, chooses anew what is still there,
and passes over files that are not.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.pipelines.project import Project
from magnetar.spark.pipelines.purge import PurgeOptions
from magnetar.spark.pipelines.purge import candidates as chosen
from magnetar.spark.pipelines.subscription import Subscription

spark = SparkSession.active()
project = Project(spark, "topic", "subscription", "where", "limit", "dryRun")
options = PurgeOptions(
    project.target,
    project.text("topic"),
    project.text("subscription"),
    project.text("where"),
    limit=project.number("limit", 0),
)
Subscription(options.target.rest(), options.topic, options.subscription).require_skips()
messages = chosen(spark, options)


@dp.materialized_view(comment="What is skipped, or would be")
def candidates() -> DataFrame:
    return messages


if not project.dry_run:
    dp.create_sink("skips", "magnetar", options.skip_options())

    @dp.append_flow(target="skips")
    def skip() -> DataFrame:
        stream = spark.readStream.option("ignoreMissingFiles", "true").table("candidates")
        return stream.select("topic", "message_id")
