"""Helpers of the test suites."""
