"""Acks of one subscription: answers, limits, and very long ones."""
