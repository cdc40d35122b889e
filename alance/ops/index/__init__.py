"""Indices that are made, extended, listed and dropped.

`manage` and `extend` have the verbs, `parts` the same in steps that several processes share. They
build segments by `build`, which sorts a column in bounded memory (`sort`, `runs`, `merge`). Asking
indices is the room `lookup`, below the reads.

Where to change what:
    a new kind of index: `new.KINDS`, its files in `build`, its answers in `lookup`
    what an index may be on: `new`
    how much is sorted in memory: `sort`
"""
