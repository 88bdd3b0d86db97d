"""Disks: the only callers of the operating system's files, and one in memory."""
