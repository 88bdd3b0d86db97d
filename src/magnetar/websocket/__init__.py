"""WebSocket: produce, consume and read for programs without a client, in Pulsar's form."""
