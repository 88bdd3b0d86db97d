"""The client of admin REST: what the command line, Spark and programs ask a broker with."""
