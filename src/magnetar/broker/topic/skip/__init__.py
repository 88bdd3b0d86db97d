"""Skip by message id (PIP-423), and taking back what consumers hold."""
