"""Dead letters back to the topics that they come from, each once.

    dead letter topic -- acks behind --> table `letters` -- predicate, rate --> their topics

A stream acknowledges all that it has read, chosen or not, so the letters are kept in a table
first: those that the predicate does not choose, or that lead nowhere, stay there.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.pipelines.backlog import chosen
from magnetar.spark.pipelines.letter.letter_rows import letters_of, sent_back
from magnetar.spark.pipelines.project import Project
from magnetar.spark.pipelines.redrive import RedriveOptions, rate_of, read_letters, stream_options

spark = SparkSession.active()
project = Project(spark, "topic", "subscription", "where", "to", "rate", "dryRun")
options = RedriveOptions(
    project.target,
    project.text("topic"),
    project.text("subscription"),
    project.text("where", ""),
    project.text("to", ""),
    rate_of(project.text("rate", "")),
)

if project.dry_run:
    unacked = letters_of(read_letters(spark, options))

    @dp.materialized_view(comment="The messages that would go")
    def letters_to_go() -> DataFrame:
        return sent_back(chosen(unacked, options.where), options.to)

else:
    stream = stream_options(options)
    dp.create_sink("origins", "magnetar", project.target.options())

    @dp.table(comment="All dead letters")
    def letters() -> DataFrame:
        # Each file is a step: so many letters are sent at a time.
        unacked = spark.readStream.format("magnetar").options(**stream).load()
        return letters_of(unacked).coalesce(1)

    @dp.append_flow(target="origins")
    def redrive() -> DataFrame:
        steps = spark.readStream.option("maxFilesPerTrigger", "1").table("letters")
        return sent_back(chosen(steps, options.where), options.to, options.rate)
