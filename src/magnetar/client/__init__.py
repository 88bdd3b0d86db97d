"""The client library: what decides is pure; two doors, asyncio and blocking, carry it out."""
