"""Transactions: their coordinator, which opens and ends them for all topics at once."""
