"""Work on topics that Spark does: each pipeline is a function, a command and a job to submit."""
