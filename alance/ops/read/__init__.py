"""Reading: takes, scans, counts, samples, blobs, changes between versions; and explaining it.

A take is `take`, over one plan for all fragments. A scan is decided in `plan`, and run by `scan`,
which cuts fragments into spans (fetched at once) and splits (decoded by one job).

Where to change what:
    an option of scans: `options`, and `plan`, which decides by it
    how rows are named by callers: `positions`
    what comes of decoded rows (deletions, filter, meta columns): `rows`
    a source of bounds that pruning asks: `pruning`
    which columns of a filtered scan come late: `late`; many small fragments: `groups`
    a verb that reads: a module of its own, as `count` and `delta` are
"""
