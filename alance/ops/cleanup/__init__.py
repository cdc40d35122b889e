"""Cleanup of old versions: requested by a caller or, after a commit, by the table's configuration.

The lowest room of `ops`, because `version` commits, and a cleanup may follow a commit.

Where to change something:

    choice of the versions: `policy`; files of each version: `files`; both are pure
    steps and deletion: `cleanup`; cleanup after a commit: `after`
"""
