"""Segments of inverted indices: built, built in parts, and remapped after a compaction."""
