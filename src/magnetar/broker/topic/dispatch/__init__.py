"""Dispatchers: which consumer gets which entry, one for each subscription type."""
