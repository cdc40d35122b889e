"""Memory of a session: the search cache, the block cache, and the disk cache of remote metadata.

A cache never decides what is read: `reading` asks it first.
May import `events`, `stores` and `loop`.
"""
