"""Create, extend, list and drop indices.

`manage` and `extend` have the verbs; `parts` splits a build into tasks for several processes. Each
folder builds the segments of its kinds: `values`, `texts`, `vectors`. `remap`, `reuse` and `late`
follow compactions. Index queries are in the package `lookup`, below the reads.

Where to change what:
    a new kind of index: see CONTRIBUTING.md, "An index kind"
    checks of the indexed column: the kind's module in `lookup.kinds`, for vectors `vectors.new`
    memory for sorting: `values.sort`
"""
