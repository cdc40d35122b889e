"""The protocol of a store, its profile and uploads, its check, and the store of objects in memory.

Code that works with any kind of store imports only this folder. May import only `loop`.
"""
