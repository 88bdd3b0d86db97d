"""Cursors in the log: deltas, snapshots, and loading them."""
