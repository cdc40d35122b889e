"""Bytes of scalar, vector and text index files: parsed and encoded, without I/O.

Modules may import `format`, `expr` and the leaves at the top of `alance`.
"""
