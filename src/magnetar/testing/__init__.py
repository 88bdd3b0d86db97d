"""For tests: a simulated loop, network and disk."""
