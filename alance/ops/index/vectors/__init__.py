"""Segments of vector indices: trained, built, split, in parts, and carried over."""
