"""Delete and update rows.

Both end in `moved.prepare_rows`, as a merge does. It writes deletion files, names the new fragments
and commits.

Where to change what:
    conditions of a delete: `delete`
    new values of an update: `update`
    a new method that removes or moves rows: a module of its own, which ends in `moved.prepare_rows`
"""
