"""Deletes and updates of rows.

Like a merge, both end with `moved.prepare_rows`, which prepares deletion files, new fragments and
the commit.

Where to change what:
    conditions of a delete: `delete`
    new values of an update: `update`
    a new method that removes or moves rows: its own module, which ends with `moved.prepare_rows`
"""
