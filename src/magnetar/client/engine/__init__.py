"""The engine behind both doors: producers, consumers and readers, put onto connections."""
