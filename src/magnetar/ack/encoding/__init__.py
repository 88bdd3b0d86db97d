"""Acks, deltas and cursors as bytes."""
