"""What a client is told: options, policies, addresses, proofs of identity, keys and loggers."""
