"""Changes of a table: the next version that an operation makes, and the conflict rules."""
