"""Columns that are added, computed, altered, replaced, dropped.

What is given becomes `values`, fragment by fragment; `backfill` writes them to new files beside or
in the place of the old ones; one commit names them.

Where to change what:
    what a new column may be given as: `sources`; what computes it: `sql`, `udf`, `join`
    the schema and the ids of its fields: `fields`, which is pure
    how files are written and kept between attempts: `backfill`
    which types may become which: `cast`
    a verb: a module of its own, as `alter` and `drop` are
"""
