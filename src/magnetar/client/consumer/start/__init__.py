"""Where a consumer begins: start positions, seeks and ranges of entries."""
