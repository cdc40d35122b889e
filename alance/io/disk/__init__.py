"""The store of local files: descriptors and reads, atomic writes, uploads.

May import `events`, `stores` and `loop`; nothing of obstore.
"""
