"""What admin REST answers, as values with fields: stats, policies, schemas."""
