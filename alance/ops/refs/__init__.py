"""Tags and branches, and shallow clones.

Where to change what:
    what `dataset.tags` and `dataset.branches` offer: `refs`
    how they are made, moved and deleted: `write`; how their objects are put: `objects`
    a version as the first one of another table or of a branch: `clone`
"""
