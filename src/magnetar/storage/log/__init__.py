"""The log: records, segments, groups on their way to the disk, and the writer's thread."""
