"""A micro-batch as one transaction: begun, written to by tasks, and committed once."""
