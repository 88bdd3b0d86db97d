"""The routes of Pulsar's admin REST, one noun per file."""
