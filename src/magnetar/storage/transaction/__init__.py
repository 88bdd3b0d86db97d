"""Transactions in the log: what is open, what belongs to it, and how it ended."""
