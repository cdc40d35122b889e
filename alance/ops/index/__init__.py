"""Indices that are made, extended, listed and dropped.

`manage` and `extend` have the verbs, `parts` the same in steps that several processes share. Each
folder builds the segments of its kinds: `values`, `texts`, `vectors`. `remap`, `reuse` and `late`
follow compactions. Asking indices is the room `lookup`, below the reads.

Where to change what:
    a new kind of index: see CONTRIBUTING.md, "An index kind"
    what an index may be on: the module of its kind in `lookup.kinds`, of vectors `vectors.new`
    how much is sorted in memory: `values.sort`
"""
