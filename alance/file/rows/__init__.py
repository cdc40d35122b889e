"""Rows of open data files, planned and decoded for scans, takes and whole small files.

Modules may import `file.open` and `format`. They never wait, except that `in_place` reads local
files.
"""
