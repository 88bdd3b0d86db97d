"""The two doors, asyncio and blocking, and the bulk door that Spark uses."""
