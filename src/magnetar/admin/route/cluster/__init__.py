"""Clusters, brokers and what they tell of themselves: there is one of each."""
