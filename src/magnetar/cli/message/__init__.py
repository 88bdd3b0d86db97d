"""Commands that move messages: produce, consume and peek."""
