"""Rows of open data files: planned, read and decoded, for scans, takes and whole small files."""
