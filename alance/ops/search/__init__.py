"""Searching by vectors: the k nearest rows, exactly or by an index.

A search finds the ids of rows and their distances, and takes the other columns of these rows alone.

Where to change what:
    an argument of searches, what is a valid query: `options`
    which way is gone, what comes after it (post-filter, refinement, the output): `nearest`
    the vectors of a column as the kernels want them, exact search of rows: `flat`
    which segments of which index are asked, and how its partitions are read: `segments`, `indexed`
    which rows of an index count (deleted, filtered, stale ones do not): `eligible`
    the bytes of the index files: `alance.format.index`
"""
