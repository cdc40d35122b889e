"""Columns that are added, computed, altered, replaced, dropped.

What is given becomes values, fragment by fragment; `backfill` writes them to new files beside or in
the place of the old ones; one commit names them.

Where to change what:
    what a new column may be given as, and what computes it: `sources`; values by a key: `join`
    the schema and the ids of its fields: `fields`, which is pure
    how files are written: `backfill`; what is kept for a run after a crash: `checkpoint`
    which types may become which: `cast`
    a verb: `add` (and replace), `alter` (and drop), `join` (merge, and update in a fragment)
"""
