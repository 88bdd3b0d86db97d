"""Skip by message id: the request, and the plan of acks for clusters that lack it."""
