"""Indices that are made, extended, listed and dropped.

`manage` and `extend` have the verbs, `parts` the same in steps that several processes share. They
build segments by `build`, which sorts a column in bounded memory (`sort`, `runs`, `merge`). Asking
indices is the room `lookup`, below the reads.

Where to change what:
    a new kind of index: see CONTRIBUTING.md, "An index kind"
    what an index may be on: the module of its kind in `lookup.kinds`, of vectors `new_vector`
    how much is sorted in memory: `sort`
"""
