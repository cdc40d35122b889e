"""Columns: add, compute, alter, replace and drop.

The caller's input is converted to values, fragment by fragment. `backfill` writes them to new
files, next to the old files or instead of them, and one commit creates the version.

Where to change something:
    input for new columns, and its evaluation: `sources`; values by a key: `join`
    the schema and the ids of its fields: `fields`, which is pure
    writing of files: `backfill`; state for a run after a crash: `checkpoint`
    casts between types: `cast`
    a verb: `add` (and replace), `alter` (and drop), `join` (merge, and update in a fragment)
"""
