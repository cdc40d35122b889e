"""Tags, branches and clones.

Where to change what:
    methods of `dataset.tags` and `dataset.branches`: `refs`
    creating, moving and deleting tags and branches: `write`
    looking up the version of a reference, putting and deleting records: `records`
    clones, the first versions of branches: `clone`
    tags that note shallow clones: `clone_notes`
    copying the files of a version: `files`
"""
