"""Commands that work on a data directory: backup, check and dump."""
