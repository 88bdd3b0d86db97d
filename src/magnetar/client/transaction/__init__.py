"""Transactions of a client: their states, what takes part in them, and when they may end."""
