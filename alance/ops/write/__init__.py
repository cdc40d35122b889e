"""Writing of rows: user data becomes data files, and the files become a version.

`write` creates, appends and overwrites; `append` lets the appends of a session share versions;
`ingest` writes a stream. Other rooms write new files by `files.DataFiles`, and hold batches for a
second read in a `spool`.

Where to change what:
    accepted kinds of data: `sources`; values that a column cannot hold: `refusals`
    an option of all methods that write: `options`
    the end of a data file, and concurrent uploads: `files`, `files_at_once`
    the version that an append extends: `append`, `append_by_uri`
    batches that a table remembers of a stream's producers: `ingest_history`
"""
