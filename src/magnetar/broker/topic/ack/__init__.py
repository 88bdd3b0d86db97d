"""Acks of one subscription: answers, limits, what waits for them, resets, and very long ones."""
