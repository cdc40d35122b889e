"""Recorded I/O as text and pictures."""
