"""Segments of scalar indices (B-tree, bitmap, ...): built, sorted, merged, carried over."""
