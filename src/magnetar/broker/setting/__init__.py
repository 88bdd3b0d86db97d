"""Settings: their declarations, where they come from, and Pulsar's broker.conf."""
