"""Rows of open data files: planned and decoded, for scans, takes and whole small files.

Imports `file.open` and `format`. Nothing here waits, except that `in_place` reads mapped files.
"""
