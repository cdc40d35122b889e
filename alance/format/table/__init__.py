"""The table format as immutable data."""
