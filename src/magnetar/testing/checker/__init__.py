"""Histories and the checkers that judge them by the invariants."""
