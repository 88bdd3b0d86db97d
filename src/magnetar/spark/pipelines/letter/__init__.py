"""Dead letters on their way back: rows, targets, and the plan of a redrive."""
