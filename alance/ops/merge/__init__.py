"""Merge: a source row updates or deletes the table row with its key, or is inserted.

`insert` runs a merge: `plan` checks the request against the table, `source` holds the data and its
keys, `match` scans the table and joins, `rows` writes, and `ops.rows.moved` prepares the commit.

Where to change what:
    clauses and options: `options`, checked in `plan`, executed in `match`
    equality of keys: `alance.format.keys`; the join: `match`
    rewriting rows or only columns: `insert`
    keys recorded in the transaction for other writers: `inserted`
    streams of changes by key: the forms of feeds in `feed`, their commits in `stream`
"""
