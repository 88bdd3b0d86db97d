"""Planning of reads: places between messages, and backlogs as runs of entries."""
