"""Caches of a session: the search cache, the block cache, and the disk cache of remote metadata.

A cache never decides what is read: `reading` looks in the caches first.

May import `events`, `stores` and `loop`.
"""
