"""Namespaces and the topics in them: lists, patterns and watchers."""
