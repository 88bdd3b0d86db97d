"""What entries carry: batches, chunks, columns of them, keys with values, compression."""
