"""Moving to another broker or cluster: topics, their messages, and what nobody has acked yet."""
