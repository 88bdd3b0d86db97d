"""What the blocking door is made of: its threads, and the parts that other threads use."""
