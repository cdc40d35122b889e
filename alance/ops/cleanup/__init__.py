"""Cleanup of old versions, asked for by a user or, after a commit, by the table's configuration.

The lowest room: `version` commits, and a commit may be followed by a cleanup.

Where to change what:
    which versions go: `policy`; which files are whose: `files`, both pure
    the steps and deletion: `cleanup`; what is done after a commit: `after`
"""
