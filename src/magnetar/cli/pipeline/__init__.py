"""`magnetar pipeline`: Spark pipelines from the command line."""
