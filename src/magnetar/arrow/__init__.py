"""Topics and backlogs as Arrow tables: `read_arrow`, and what Spark's source is made of."""
