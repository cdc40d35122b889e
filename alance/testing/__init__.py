"""Servers to test and demonstrate against."""
