"""Transactions within one topic: what is not to be seen yet, and acks that wait for an end."""
