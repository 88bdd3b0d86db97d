"""The raw door, asyncio: entries as they are, read, written, and with what is left of each."""
