"""Transactions over REST: the coordinator, and what open ones have in topics and subscriptions."""
