"""A version of a table: opened, looked into, and followed by the next one.

What every other room works on is a `Snapshot` and the `FragmentHandle`s of its fragments. `learn`
and `lineage` ask the store for what a manifest leaves open, `projection` says which fields a read
fetches and how its output comes from them, `commits` is where all verbs that change a table end.

Where to change what:
    how a version is named and found: `opening`
    what a commit takes: `options`; when a verb is computed again: `commits.with_retries`
    what is known of a fragment: `handle`
    a meta column: its name in `projection`, its values in `read.rows`
    what is imported late: `first_use`
"""
