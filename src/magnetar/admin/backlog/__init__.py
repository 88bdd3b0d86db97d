"""What a subscription has left: stats, ack state, messages, and skipping them by id."""
