"""Tools of all layers: checks of arguments, imports on first use, records, names of arrays.

Imports `alance.errors` alone.
"""
