"""Cleanup of old versions, requested by a caller or, after a commit, by the table's configuration.

The lowest room of `ops`: `version` commits, and a commit may be followed by a cleanup.

Where to change something:
    choice of the versions: `policy`; files of each version: `files`; both are pure
    steps and deletion: `cleanup`; cleanup after a commit: `after`
"""
