"""Tags and branches, and clones.

Where to change what:
    what `dataset.tags` and `dataset.branches` offer: `refs`
    how they are made, moved and deleted, and how their objects are put: `write`
    a version as the first one of another table or of a branch: `clone`
    the files of a version, copied: `files`
"""
