"""What a client tells about itself: counters, logs of them, OpenTelemetry metrics and traces."""
