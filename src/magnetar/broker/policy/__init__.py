"""Policies of namespaces and topics, and which of them is in effect."""
