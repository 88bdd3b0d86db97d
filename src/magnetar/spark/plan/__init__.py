"""What the connector decides, without Spark, clock or I/O."""
