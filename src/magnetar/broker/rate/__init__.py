"""Rates: how much may be published, handed out and subscribed in a time, and who waits for it."""
