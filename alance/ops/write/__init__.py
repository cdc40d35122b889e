"""Writing rows: what users hand over becomes data files, and these a version.

`write` creates, appends and overwrites, `append` shares versions between the appends of a session,
`ingest` writes a stream. Other rooms write their new files by `files.DataFiles`, and keep batches
for a second reading in a `spool`.

Where to change what:
    what is accepted as data: `sources`
    an option of all verbs that write: `options`
    where a data file ends, how many are under way: `files`, `files_at_once`
    how an append finds its version: `append`, `append_by_uri`
    what a stream remembers of its producers: `ingest_history`
"""
