"""Vector search: the k nearest rows, exactly or by an index.

A search finds row ids and distances, then takes the other columns of these rows only. Modules may
import `ops/read`, `ops/lookup`, `ops/version` and the layers below `ops`.

Where to change something:
    arguments of searches, and checks of queries: `options`
    steps of all kinds of searches (joining, filter after the search, output): `table`
    search by vectors as a kind of search: `nearest`; its steps (partitions, refinement): `answer`
    vectors of a column in the form for kernels, exact search of rows: `flat`
    choice of the segments of an index, and reading of its partitions: `segments`, `indexed`
    eligible rows of an index (not deleted, passing the filter, not stale): `eligible`
    bytes of the index files: `alance.format.index`
"""
