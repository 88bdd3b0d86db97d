"""Acks on their way: what was acknowledged, what was sent, what was answered, what is retried."""
