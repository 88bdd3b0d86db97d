"""The shell of workers: tasks, threads, signals and consumers."""
