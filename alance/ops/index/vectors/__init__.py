"""Segments of vector indices: trained, built, split, built in parts, and carried over."""
