"""The asyncio shell of the broker: sockets, TLS, keys and limits of connections."""
