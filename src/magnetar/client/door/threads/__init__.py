"""The blocking door's threads: callers, listeners and the thread of the loop."""
