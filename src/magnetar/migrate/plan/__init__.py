"""What a move decides without I/O: places on both sides, acks, entries, journal, policies."""
