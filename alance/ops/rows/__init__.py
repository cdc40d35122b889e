"""Rows that change where they are: delete and update.

Both find rows by `matching` and end in `moved.commit_rows`, which writes deletion files, names the
new fragments and commits; so does a merge.

Where to change what:
    what a condition may be: `matching`
    what a new value may be: `assign`
    a verb that removes or moves rows: a module of its own, which ends in `moved.commit_rows`
"""
