"""Topics and subscriptions: what decides about messages, acks and consumers."""
