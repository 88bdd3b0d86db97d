"""Compaction of topics: the last message of each key, kept beside the topic as a view of it."""
