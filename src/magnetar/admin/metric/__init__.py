"""What metrics there are, and where each number comes from."""
