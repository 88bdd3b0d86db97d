"""Connections to brokers: sockets, the pool, lookups, reconnects and failover."""
