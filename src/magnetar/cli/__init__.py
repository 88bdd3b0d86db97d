"""The command line: one file for each noun, put together in `main`."""
