"""The console: a page for operators, and the questions that only it asks of the broker."""
