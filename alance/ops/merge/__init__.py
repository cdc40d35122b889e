"""Merge: source rows update or delete table rows with the same key, and are inserted without one.

`insert` runs a merge: `plan` checks the request against the table, `source` holds the data with its
keys, `match` scans the table and joins, `rows` writes, `ops.rows.moved` prepares the commit.

Where to change what:
    clauses and options: `options`, checked in `plan`, executed in `match`
    equality of keys: `alance.format.keys`; the join: `match`
    rewriting rows or only columns: `insert`
    keys recorded in the transaction for other writers: `inserted`
    streams of changes by key: the forms of feeds in `feed`, their commits in `stream`
"""
