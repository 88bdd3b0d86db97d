"""Schemas: what bytes a value becomes, and what the broker is told about it."""
