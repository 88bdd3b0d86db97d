"""Messages in chunks: which entries belong together, and who holds them."""
