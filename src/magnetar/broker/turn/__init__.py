"""Whose turn it is: long work in steps, and how much may wait for peers."""
