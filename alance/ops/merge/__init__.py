"""Merging: rows of a source update, delete or join the rows of a table that have the same key.

`insert` runs it: `plan` checks what is asked against the table, `source` keeps the data with its
keys, `match` scans the table and joins, `rows` writes, `rows.moved` commits.

Where to change what:
    a clause or an option: `options`, checked in `plan`, done in `match`
    when two keys are equal: `alance.format.keys`; how they are joined: `match`
    whether rows or only columns are rewritten, what others are told of inserted keys: `insert`
"""
