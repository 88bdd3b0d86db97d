"""The deciding half of a producer: batches, chunks, partitions, what waits for its receipt."""
