"""Workers: functions that are called with each message, and how they start, stop and fail."""
