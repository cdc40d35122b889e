"""Bytes of the files of scalar, vector and text indices: parsed and encoded, without I/O.

Modules may import `format`, `expr` and the leaves at the top of `alance`.
"""
