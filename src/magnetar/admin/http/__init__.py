"""HTTP: the server, who may ask, the router, and what an answer looks like."""
