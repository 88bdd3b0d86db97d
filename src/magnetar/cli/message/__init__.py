"""Commands that move messages: produce, consume, peek and migrate."""
