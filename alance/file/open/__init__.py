"""Opening of a data file: its columns, what is known of their pages, and what it consists of.

Imports nothing of the folders beside it.
"""
