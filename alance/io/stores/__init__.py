"""The protocol of a store, its profile and uploads, its check, and the store of objects in memory.

Code that needs a store, but not a kind of store, imports from here. May import only `loop`.
"""
