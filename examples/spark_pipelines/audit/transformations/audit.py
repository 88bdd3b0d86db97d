"""The state of a subscription as tables, of one snapshot of its backlog; nothing is disturbed.

The ack state is asked for when this file is loaded, and the backlog is read a moment later.
Each run replaces the tables. The page with plots is what `magnetar pipeline audit` writes.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.pipelines.audit import Audited, AuditOptions, flags_of, suspects_of
from magnetar.spark.pipelines.project import Project
from magnetar.spark.pipelines.report.message_counts import figures

spark = SparkSession.active()
project = Project(spark, "topic", "subscription")
options = AuditOptions(project.target, project.text("topic"), project.text("subscription"))
audited = Audited(spark, options)
acks = audited.acks.frames(spark)


@dp.materialized_view(comment="Each unacked message, with what is wrong about it")
def backlog() -> DataFrame:
    return audited.messages


def by(column: str) -> DataFrame:
    groups = spark.table("backlog").where(f"{column} is not null").groupBy(column)
    return groups.agg(*figures(flags_of()))


@dp.materialized_view
def backlog_by_age() -> DataFrame:
    return by("age")


@dp.materialized_view
def backlog_by_key() -> DataFrame:
    return by("key")


@dp.materialized_view
def backlog_by_producer() -> DataFrame:
    return by("producer")


@dp.materialized_view(comment="Keys with messages that later ones have overtaken")
def stuck_keys() -> DataFrame:
    return by("stuck")


@dp.materialized_view(comment="Overtaken, given back, not decodable or delayed: the first of each")
def suspects() -> DataFrame:
    return suspects_of(spark.table("backlog"))


@dp.materialized_view(comment="Messages that are due later")
def delayed() -> DataFrame:
    return spark.table("backlog").where("delayed")


@dp.materialized_view(comment="How far acks are, by topic partition")
def partitions() -> DataFrame:
    return acks["partitions"]


@dp.materialized_view(comment="Unacked entries between acked ones")
def holes() -> DataFrame:
    return acks["holes"]


@dp.materialized_view
def partly_acked_batches() -> DataFrame:
    return acks["batches"]
