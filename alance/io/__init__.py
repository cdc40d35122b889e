"""Stores, the scheduler of range reads, caches and traces. Nothing here knows the format."""
