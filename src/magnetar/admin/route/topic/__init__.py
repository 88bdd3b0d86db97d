"""Routes of topics beside those of topics.py: partitions, properties."""
