"""One data file."""
