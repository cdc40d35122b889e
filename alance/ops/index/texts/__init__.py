"""Segments of inverted indices: built, in parts, and with new addresses after a compaction."""
