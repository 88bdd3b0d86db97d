"""Pulsar's admin REST, served by the broker."""
