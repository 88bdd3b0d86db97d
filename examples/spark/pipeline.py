"""All pipelines as a job for spark-submit: what follows is what `magnetar` would be given.

spark-submit --master spark://host:7077 examples/spark/pipeline.py \\
    --url pulsar://broker:6650 --admin-url http://broker:8080 \\
    pipeline archive --topic orders --subscription archive --to s3a://bucket/orders
"""

from magnetar.cli.main import main

if __name__ == "__main__":
    main()
