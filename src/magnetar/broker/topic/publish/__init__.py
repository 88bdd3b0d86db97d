"""What producers send: who may publish, what is refused, what is a duplicate, how much may wait."""
