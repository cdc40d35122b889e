"""Index lookups: find the rows for which a filter may be true.

A *question* is a part of a filter that an index may answer. Reads call `look_up.look_up` (see
`read.plan`) and take the rows in the answer. If an index is damaged or of an unknown kind, it is
not used, and the read is only slower. The package `index` builds and maintains indices.

Where to change what:
    indices that answer filters in a version, a new kind of index: `segments`
    cost of a lookup against a scan, joins of answers: `look_up`
    lookup in one segment, questions that a kind takes: `ask`; for zones: `kinds.zones`
    reads of index files, and their entries in the search cache: `files`
"""
