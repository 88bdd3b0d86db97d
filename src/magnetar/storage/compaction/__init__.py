"""Compacted views in the log: ledgers of kept entries, and where each of these was published."""
