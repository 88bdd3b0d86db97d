"""Who gets which message next: one dispatcher for each subscription type."""
