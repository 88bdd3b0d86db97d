"""The engine behind both doors: connections, lookups, producers and consumers on one loop."""
