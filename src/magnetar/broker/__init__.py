"""The broker: topics, subscriptions and dispatch decide; server.py carries out."""
