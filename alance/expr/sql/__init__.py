"""Parsing of SQL text to a syntax tree.

Imports nothing of `expr` but `tree`, `exact`, `arithmetic` and `casts`.
"""
