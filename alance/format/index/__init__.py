"""Bytes of scalar, vector and text index files: parsed and encoded, without I/O.

Modules may import `format`, `expr`, `alance.base`, `alance.errors` and the kernels.
"""
