"""Segments of indices of values (B-tree, bitmap, ...): built, sorted, merged, carried over."""
