"""Builders of SQL functions: a module for each kind of value.

`alance.expr.functions` is their table.
"""
