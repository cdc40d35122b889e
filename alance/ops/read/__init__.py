"""Reads: takes, scans, counts, samples, blobs, changes between versions, and explanations of reads.

`take` plans all fragments of a take at once. `plan` plans a scan, and `scan` runs it: it cuts
fragments into spans, which are fetched at once, and spans into splits, which are decoded by one job
each.

Where to change what:
    an option of scans: `options`, and `plan`, which decides by it
    row positions, ids and addresses from callers: `take`; how their bytes are read: `physical_rows`
    steps after decoding (deletions, filter, meta columns): `rows`
    a source of bounds for pruning: `pruning`
    late columns of a filtered scan: `plan.split_fields`, `late`; many small fragments: `groups`
    a verb that reads: a module of its own, such as `count` or `delta`
"""
