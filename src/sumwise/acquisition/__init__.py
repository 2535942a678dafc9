"""Which set to measure next: strategies, what the user wants of them, and fast search."""
