"""Rows that change where they are: delete and update.

Both end in `moved.prepare_rows`, which writes deletion files, names the new fragments and commits;
so does a merge.

Where to change what:
    what a condition may be: `delete`
    what a new value may be: `update`
    a verb that removes or moves rows: a module of its own, which ends in `moved.prepare_rows`
"""
