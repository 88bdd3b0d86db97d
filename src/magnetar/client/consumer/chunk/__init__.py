"""Large messages that arrive in chunks."""
