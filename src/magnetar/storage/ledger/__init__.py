"""Ledgers: where entries lie, how they are read, and how long they are kept."""
